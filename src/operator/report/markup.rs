//! Texts in markup: a name that holds signs of it stays a text.

use std::borrow::Cow;

/// A text as it may stand between tags, and in quotes.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut all = String::with_capacity(text.len() + 16);
    for sign in text.chars() {
        match sign {
            '&' => all.push_str("&amp;"),
            '<' => all.push_str("&lt;"),
            '>' => all.push_str("&gt;"),
            '"' => all.push_str("&quot;"),
            '\'' => all.push_str("&#39;"),
            sign => all.push(sign),
        }
    }
    Cow::Owned(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_markup_are_written_out() {
        assert_eq!(
            escaped("<a href=\"x\" b='&'>"),
            "&lt;a href=&quot;x&quot; b=&#39;&amp;&#39;&gt;"
        );
        assert!(matches!(escaped("shop/orders-0 磁盘"), Cow::Borrowed(_)));
    }
}
