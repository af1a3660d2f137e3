//! What of an argument may stand in a message.

/// Longer texts than this are no names and no paths.
const LONGEST: usize = 300;

/// The text, if it looks like a name or a path; arguments that were mixed up may hold secrets.
#[must_use]
pub fn shown(text: &str) -> &str {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '~' | ':');
    if text.is_empty() {
        "(empty)"
    } else if text.len() <= LONGEST && text.chars().all(is_plain) {
        text
    } else {
        "(not shown)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_paths_are_shown() {
        assert_eq!(shown("/dev/vdb"), "/dev/vdb");
        assert_eq!(shown(""), "(empty)");
        for text in ["{\"a\":\"b\"}", "c2VjcmV0=", "a b", "100%", &"x".repeat(301)] {
            assert_eq!(shown(text), "(not shown)", "{text}");
        }
    }
}
