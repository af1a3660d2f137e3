//! A text in YAML: what is wrong with it is told by its line, and with none of its words, for they may
//! be secret.

use serde::de::DeserializeOwned;

/// Reads a text, or says where it is wrong.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_saphyr::from_str(text).map_err(|error| {
        let place = error.location().map(|at| format!("line {}: ", at.line()));
        format!("{}no YAML, or not what belongs here", place.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_by_its_line_alone() {
        for text in ["1\n...\n: [hunter2", "a: hunter2\nb: [", "hunter2", "- hunter2: {"] {
            let error = read::<Vec<u8>>(text).unwrap_err();
            assert!(error.ends_with("no YAML, or not what belongs here"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(read::<Vec<u8>>("[1,\n\n 300]").unwrap_err().starts_with("line 3: "));
    }
}
