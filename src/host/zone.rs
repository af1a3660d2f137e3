//! The time zone of this machine.

use crate::model::timestamp::Millis;
use crate::model::zone::Zone;

/// The time zone of this machine, or of the variable `TZ`.
pub const LOCAL: Zone = Zone(ahead_of_utc);

/// UTC where the C library cannot tell.
#[allow(unsafe_code, reason = "only the C library reads the machine's zone")]
fn ahead_of_utc(at: Millis) -> i64 {
    let Ok(seconds) = nix::libc::time_t::try_from(at / 1000) else { return 0 };
    // SAFETY: all fields of `tm` may be zero, and both places outlive the call.
    let (found, local) = unsafe {
        let mut local: nix::libc::tm = std::mem::zeroed();
        (!nix::libc::localtime_r(&raw const seconds, &raw mut local).is_null(), local)
    };
    if found { local.tm_gmtoff } else { 0 }
}
