//! A text in TOML, given to serde. What is wrong is told with its line, its key and what belongs there;
//! [`Fault`] has no place for a value, for a password may stand where anything else belongs.

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use strsim::levenshtein;
use toml::de::{DeTable, DeValue};

/// Reads a text, or says where and how it is wrong.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let line = |span: Range<usize>| text[..span.start].matches('\n').count() + 1;
    let told = |span: Option<Range<usize>>, what: &str| {
        span.map_or_else(|| what.to_owned(), |span| format!("line {}: {what}", line(span)))
    };
    // The language's own errors say what sign belongs where.
    let table = DeTable::parse(text)
        .map_err(|error| told(error.span(), &error.message().replace('\n', " ")))?;
    let whole = Placed {
        key: String::new(),
        span: table.span(),
        value: DeValue::Table(table.into_inner()),
    };
    whole.read(PhantomData).map_err(|fault: Fault| {
        let what = match fault.key.as_deref() {
            None | Some("") => fault.what,
            Some(key) => format!("{key}: {}", fault.what),
        };
        told(fault.span, &what)
    })
}

/// Why a text is not taken.
#[derive(Debug)]
struct Fault {
    span: Option<Range<usize>>,
    /// The key whose value is wrong, in full.
    key: Option<String>,
    /// Words of ours, names of keys, and what belongs there.
    what: String,
}

impl Fault {
    fn new(what: impl Into<String>) -> Self {
        Self { span: None, key: None, what: what.into() }
    }

    fn of_kind(expected: &str, found: &str) -> Self {
        Self::new(format!("expected {expected}, found {found}"))
    }

    /// At this place, if it was not at another within.
    fn at(mut self, span: &Range<usize>, key: &str) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self.key.get_or_insert_with(|| key.to_owned());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}

impl Error for Fault {
    /// What a type of ours says of a text that it does not take: it quotes none.
    fn custom<T: fmt::Display>(what: T) -> Self {
        Self::new(what.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {expected}"))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("out of range, expected {expected}"))
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::new(format!("of a wrong length, expected {expected}"))
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self::new(format!("expected {}", known.join(" or ")))
    }

    /// With the one that was meant instead of thirty of them.
    fn unknown_field(wrong: &str, known: &'static [&'static str]) -> Self {
        let wrong = shown(wrong);
        let near = known.iter().min_by_key(|key| levenshtein(&wrong, key));
        let most = (wrong.chars().count() / 3).clamp(1, 3);
        let rest = match near.filter(|near| levenshtein(&wrong, near) <= most) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are `{}`", known.join("`, `")),
        };
        let mut fault = Self::new(format!("there is no key `{wrong}`; {rest}"));
        // The key is told already.
        fault.key = Some(String::new());
        fault
    }
}

/// A key, if it looks like one: a text that stands at a wrong place may be quoted like one.
fn shown(key: &str) -> String {
    const LONGEST: usize = 64;
    let is_bare = |sign: char| sign.is_ascii_alphanumeric() || "_-.".contains(sign);
    let is_key = !key.is_empty() && key.len() <= LONGEST && key.chars().all(is_bare);
    if is_key { key.to_owned() } else { "(not shown)".to_owned() }
}

/// A value with its place.
struct Placed<'i> {
    key: String,
    span: Range<usize>,
    value: DeValue<'i>,
}

impl<'de> Placed<'de> {
    /// What is wrong with it is told with its place: also what a type finds once it has it.
    fn read<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Fault> {
        let (span, key) = (self.span.clone(), self.key.clone());
        seed.deserialize(self).map_err(|fault| fault.at(&span, &key))
    }
}

/// What a value is, as TOML calls it.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// A method of [`Deserializer`] for values of these kinds.
macro_rules! of_kind {
    ($($method:ident: $kinds:pat => $expected:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match &self.value {
                $kinds => self.deserialize_any(visitor),
                other => Err(Fault::of_kind($expected, kind(other))),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Placed<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Self { key, value, .. } = self;
        let too_long = || Fault::new("this number has too many digits");
        match value {
            DeValue::String(text) => visitor.visit_string(text.into_owned()),
            DeValue::Integer(number) => {
                let (text, radix) = (number.as_str(), number.radix());
                match (i64::from_str_radix(text, radix), u64::from_str_radix(text, radix)) {
                    (Ok(number), _) => visitor.visit_i64(number),
                    (_, Ok(number)) => visitor.visit_u64(number),
                    _ => Err(too_long()),
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => Err(too_long()),
            },
            DeValue::Boolean(value) => visitor.visit_bool(value),
            // No key of ours has one.
            DeValue::Datetime(_) => visitor.visit_unit(),
            DeValue::Array(values) => {
                let values = values.into_iter().map(move |value| Placed {
                    key: key.clone(),
                    span: value.span(),
                    value: value.into_inner(),
                });
                visitor.visit_seq(Values(values))
            }
            DeValue::Table(table) => {
                let entries = table.into_iter().map(|(key, value)| {
                    (key.span(), key.into_inner().into_owned(), value.span(), value.into_inner())
                });
                visitor.visit_map(Table { above: key, entries, value: None })
            }
        }
    }

    of_kind! {
        deserialize_bool: DeValue::Boolean(_) => "true or false";
        deserialize_i8: DeValue::Integer(_) => "an integer";
        deserialize_i16: DeValue::Integer(_) => "an integer";
        deserialize_i32: DeValue::Integer(_) => "an integer";
        deserialize_i64: DeValue::Integer(_) => "an integer";
        deserialize_u8: DeValue::Integer(_) => "an integer";
        deserialize_u16: DeValue::Integer(_) => "an integer";
        deserialize_u32: DeValue::Integer(_) => "an integer";
        deserialize_u64: DeValue::Integer(_) => "an integer";
        deserialize_f32: DeValue::Integer(_) | DeValue::Float(_) => "a number";
        deserialize_f64: DeValue::Integer(_) | DeValue::Float(_) => "a number";
        deserialize_char: DeValue::String(_) => "a string";
        deserialize_str: DeValue::String(_) => "a string";
        deserialize_string: DeValue::String(_) => "a string";
        deserialize_seq: DeValue::Array(_) => "an array";
        deserialize_map: DeValue::Table(_) => "a table";
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.value {
            DeValue::String(text) => visitor.visit_enum(of_text(text.into_owned())),
            other => Err(Fault::of_kind(&known.join(" or "), kind(&other))),
        }
    }

    /// A key that is there has a value.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        i128 u128 bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

fn of_text(text: String) -> StringDeserializer<Fault> {
    text.into_deserializer()
}

/// The values of an array.
struct Values<I>(I);

impl<'de, I: Iterator<Item = Placed<'de>>> SeqAccess<'de> for Values<I> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        self.0.next().map(|value| value.read(seed)).transpose()
    }
}

/// The keys of a table, with their values.
struct Table<'de, I> {
    above: String,
    entries: I,
    value: Option<Placed<'de>>,
}

impl<'de, I> MapAccess<'de> for Table<'de, I>
where
    I: Iterator<Item = (Range<usize>, String, Range<usize>, DeValue<'de>)>,
{
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((span, name, value_span, value)) = self.entries.next() else { return Ok(None) };
        let dot = if self.above.is_empty() { "" } else { "." };
        let key = format!("{}{dot}{}", self.above, shown(&name));
        let read = seed.deserialize(of_text(name)).map_err(|fault| fault.at(&span, &key))?;
        self.value = Some(Placed { key, span: value_span, value });
        Ok(Some(read))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        match self.value.take() {
            Some(value) => value.read(seed),
            None => Err(Fault::new("a value without a key")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Sample {
        text: Option<String>,
        count: u64,
        share: f64,
        flag: bool,
        word: Option<Word>,
        list: Vec<u8>,
        map: BTreeMap<String, String>,
        below: Option<Box<Sample>>,
        short: Option<Short>,
    }

    /// Looks at its text once it has it.
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(try_from = "String")]
    struct Short(String);

    impl TryFrom<String> for Short {
        type Error = &'static str;

        fn try_from(text: String) -> Result<Self, &'static str> {
            if text.len() < 5 { Ok(Self(text)) } else { Err("longer than 4 bytes") }
        }
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        One,
        Other,
    }

    #[test]
    fn each_kind_is_read_as_the_crate_reads_it() {
        for text in [
            "",
            "text = 'a'\ncount = 0x10\nshare = 1\nflag = true\nword = \"other\"\nlist = [1, 2]\n",
            "count = 18446744073709551615\nshare = 1e-3\nmap = {a = \"1\", \"b c\" = '2'}\nbelow.below.text = ''",
            "share = inf\n[below]\nlist = []\n[below.map]\nx = '''\ny'''",
        ] {
            assert_eq!(
                read::<Sample>(text).unwrap(),
                toml::from_str::<Sample>(text).unwrap(),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_line_key_and_kind() {
        for (text, told) in [
            ("\ntext = 7", "line 2: text: expected a string, found an integer"),
            ("text = 2000-01-01", "line 1: text: expected a string, found a date or time"),
            ("count = \"hunter2\"", "line 1: count: expected an integer, found a string"),
            ("[below]\ncount = 1.5", "line 2: below.count: expected an integer, found a float"),
            ("count = -7", "line 1: count: out of range, expected u64"),
            ("count = 184467440737095516150", "line 1: count: this number has too many digits"),
            ("share = true", "line 1: share: expected a number, found a boolean"),
            ("flag = {}", "line 1: flag: expected true or false, found a table"),
            ("word = \"hunter2\"", "line 1: word: expected one or other"),
            ("word = [\"hunter2\"]", "line 1: word: expected one or other, found an array"),
            ("list = [1,\n 300]", "line 2: list: out of range, expected u8"),
            ("list = \"hunter2\"", "line 1: list: expected an array, found a string"),
            ("below = \"hunter2\"", "line 1: below: expected a table, found a string"),
            ("map = {a = {b = \"hunter2\"}}", "line 1: map.a: expected a string, found a table"),
            ("[below]\n\nshort = \"hunter2\"", "line 3: below.short: longer than 4 bytes"),
            ("[below]\nflog = \"hunter2\"", "line 2: there is no key `flog`; did you mean `flag`?"),
            ("flag = true\nflag = \"hunter2\"", "line 2: duplicate key"),
        ] {
            assert_eq!(read::<Sample>(text).unwrap_err(), told);
        }
        let unknown = read::<Sample>("\"hunter 2\" = 1").unwrap_err();
        assert!(
            unknown.starts_with("line 1: there is no key `(not shown)`; there are `text`, `count`")
        );
        for text in [
            "text = hunter2",
            "text = \"hunter2",
            "text hunter2",
            "= \"hunter2\"",
            "text = \"\\hunter2\"",
        ] {
            let error = read::<Sample>(text).unwrap_err();
            assert!(error.starts_with("line 1: ") && !error.contains("hunter2"), "{error}");
        }
    }
}
