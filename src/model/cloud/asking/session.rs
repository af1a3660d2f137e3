//! Whether a kept token is still used, and how long another process is waited for that logs in.

use std::time::Duration;

/// A token must last this much longer to be used, or a quarter of its life where that is less.
pub const MARGIN: u64 = 90;

/// A call keeps this part of its time to log in itself, where the one before it does not come back.
const OWN_SHARE: u32 = 6;

/// Whether a token is used that ends then and had this life when it was new, 0 where that is not
/// known; in seconds.
pub fn is_usable(expires: u64, life: u64, now: u64) -> bool {
    let margin = if life == 0 { MARGIN } else { MARGIN.min(life / 4) };
    expires >= now + margin
}

/// How long a call waits for another one's login, which takes minutes where a cloud comes back after an outage.
/// Where the cloud is not well it waits to its end: one more login would not be quicker.
pub fn waits_for_login(left: Duration, total: Duration) -> Duration {
    left.saturating_sub(total / OWN_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_login_is_waited_for_until_there_is_just_time_for_an_own_one() {
        let of = |left, total| {
            waits_for_login(Duration::from_secs(left), Duration::from_secs(total)).as_secs()
        };
        assert_eq!([of(180, 180), of(40, 180), of(20, 180), of(30, 30)], [150, 10, 0, 25]);
    }

    #[test]
    fn a_token_near_its_end_is_not_used() {
        for (expires, life, usable) in
            [(1090, 3600, true), (1089, 3600, false), (1015, 60, true), (1014, 60, false)]
        {
            assert_eq!(is_usable(expires, life, 1000), usable, "{expires} {life}");
        }
        assert!(is_usable(1090, 0, 1000) && !is_usable(1089, 0, 1000), "a life that is not known");
    }
}
