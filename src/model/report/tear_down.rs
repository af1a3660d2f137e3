//! What takes a volume away from those who use it: asked for by an orchestrator, and refused by the
//! guard while a process has the volume.

use crate::ids::ConsumerId;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use std::collections::BTreeMap;
use std::fmt;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TearDown {
    /// The consumer's folder is unmounted.
    Unpublish(ConsumerId),
    /// The folder where the volume is staged is unmounted.
    Unstage,
    /// The disk is taken from the machine.
    Detach,
}

/// What the orchestrator that called names them: so they stand in the log, in the metrics, and in what
/// people read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TearDownWords {
    pub unpublish: &'static str,
    pub unstage: &'static str,
    pub detach: &'static str,
}

impl TearDownWords {
    /// The words of a caller that has none of its own.
    pub const PLAIN: Self = Self { unpublish: "unpublish", unstage: "unstage", detach: "detach" };

    /// All of them.
    pub fn all(&self) -> [&'static str; 3] {
        [self.unpublish, self.unstage, self.detach]
    }

    /// The word alone.
    pub fn operation(&self, tear_down: &TearDown) -> &'static str {
        match tear_down {
            TearDown::Unpublish(_) => self.unpublish,
            TearDown::Unstage => self.unstage,
            TearDown::Detach => self.detach,
        }
    }

    /// The word, and the consumer's id.
    pub fn name(&self, tear_down: &TearDown) -> String {
        let operation = self.operation(tear_down);
        match tear_down.consumer() {
            Some(consumer) => format!("{operation} {consumer}"),
            None => operation.to_owned(),
        }
    }

    /// The word, and the name that people know the consumer by, if it has one.
    pub fn told(
        &self,
        tear_down: &TearDown,
        label: impl Fn(&ConsumerId) -> Option<String>,
    ) -> String {
        let operation = self.operation(tear_down);
        match tear_down.consumer() {
            Some(consumer) => {
                let label = label(consumer).filter(|label| !label.is_empty());
                format!("{operation} for {}", label.unwrap_or_else(|| consumer.to_string()))
            }
            None => operation.to_owned(),
        }
    }
}

impl TearDown {
    /// Whose folder it is.
    pub fn consumer(&self) -> Option<&ConsumerId> {
        match self {
            Self::Unpublish(consumer) => Some(consumer),
            Self::Unstage | Self::Detach => None,
        }
    }

    /// Reads the name that a record has; of before, too, when they were named by kubelet's words.
    fn recorded(name: &str) -> Option<Self> {
        match name.split_once(' ') {
            Some(("unpublish" | "unmount", consumer)) => {
                ConsumerId::parse(consumer).ok().map(Self::Unpublish)
            }
            Some(_) => None,
            None if matches!(name, "unstage" | "unmountdevice") => Some(Self::Unstage),
            None => (name == "detach").then_some(Self::Detach),
        }
    }
}

impl fmt::Display for TearDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unpublish(consumer) => write!(f, "unpublish {consumer}"),
            Self::Unstage => f.write_str("unstage"),
            Self::Detach => f.write_str("detach"),
        }
    }
}

impl serde::Serialize for TearDown {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Reads what a record keeps by tear-down. One that this version does not know is passed over: what
/// it refuses is another's to tell.
pub fn by_tear_down<'de, D, T>(from: D) -> Result<BTreeMap<TearDown, T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let all = BTreeMap::<String, serde_json::Value>::deserialize(from)?;
    let known = all.into_iter().filter_map(|(name, kept)| Some((TearDown::recorded(&name)?, kept)));
    let read = |(tear_down, kept)| Ok((tear_down, T::deserialize(kept).map_err(D::Error::custom)?));
    known.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> BTreeMap<TearDown, u32> {
        by_tear_down(&mut serde_json::Deserializer::from_str(text)).unwrap()
    }

    #[test]
    fn what_was_written_is_read_and_so_is_what_older_versions_wrote() {
        let pod = ConsumerId::parse("u-1").unwrap();
        let all = BTreeMap::from([
            (TearDown::Unpublish(pod), 1),
            (TearDown::Unstage, 2),
            (TearDown::Detach, 3),
        ]);
        let written = serde_json::to_string(&all).unwrap();
        assert_eq!(written, r#"{"unpublish u-1":1,"unstage":2,"detach":3}"#);
        assert_eq!(read(&written), all);
        assert_eq!(read(r#"{"unmount u-1":1,"unmountdevice":2,"detach":3}"#), all);
    }

    #[test]
    fn what_this_version_does_not_know_is_passed_over() {
        let text = r#"{"snapshot v":{"a":[1]},"unmount a/b":1,"unmount":1,"":2,"detach":3}"#;
        assert_eq!(read(text), BTreeMap::from([(TearDown::Detach, 3)]));
    }

    #[test]
    fn the_caller_has_its_own_words() {
        let words = TearDownWords { unpublish: "unbind", unstage: "b", detach: "a" };
        let pod = TearDown::Unpublish(ConsumerId::parse("u").unwrap());
        assert_eq!(words.name(&pod), "unbind u");
        assert_eq!(words.told(&pod, |_| Some("shop/a".to_owned())), "unbind for shop/a");
        assert_eq!(words.told(&pod, |_| Some(String::new())), "unbind for u");
        assert_eq!(words.name(&TearDown::Unstage), "b");
        assert_eq!(words.all(), ["unbind", "b", "a"]);
    }
}
