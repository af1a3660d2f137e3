//! Bytes as people write them: two hexadecimal digits for each.

use std::fmt::Write;

/// The digits, in lower case.
pub fn digits_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
