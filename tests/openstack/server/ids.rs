//! Ids in the forms that the services give them.

use std::hash::{BuildHasher, Hasher, RandomState};

/// 64 random bits; the standard library seeds each of its hashers differently.
fn bits() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A random UUID of version 4, as Nova and Cinder give them.
pub fn uuid() -> String {
    let (high, low) = (bits(), bits());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

/// 32 hexadecimal digits, as Keystone gives them.
pub fn hex() -> String {
    format!("{:016x}{:016x}", bits(), bits())
}

/// A request's id.
pub fn request() -> String {
    format!("req-{}", uuid())
}

/// Random text of URL-safe characters.
fn text(length: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letter = || LETTERS[usize::try_from(bits() % 64).unwrap_or(0)] as char;
    (0..length).map(|_| letter()).collect()
}

/// A token that looks like Fernet's: same start, `length` characters (A3: 183, A9: 162, A14: 204).
pub fn token(length: usize) -> String {
    format!("gAAAAAB{}", text(length.saturating_sub(7)))
}

/// An audit id of a token.
pub fn audit() -> String {
    text(22)
}

/// Whether a text is a UUID in the form that Nova's schemas accept.
pub fn is_uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    digits.len() == 32 && digits.chars().all(|letter| letter.is_ascii_hexdigit())
}
