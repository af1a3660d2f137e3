//! What is remembered of folders that were unmounted while processes of their consumers had the
//! volume.

use crate::ids::ConsumerId;
use crate::timestamp::Uptime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A process: a number alone is given to another one after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    pub pid: u32,
    /// When it began, in the kernel's ticks since the machine's start.
    pub began: u64,
}

/// A folder that was unmounted while processes of its consumer had the volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetGo {
    /// When, in milliseconds since 1970: for people.
    pub at: u64,
    /// The same since the machine's start.
    pub when: Uptime,
    /// When it was mounted again, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<u64>,
}

/// All that is remembered of it of one volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetGoes {
    #[serde(default)]
    pub folders: BTreeMap<ConsumerId, LetGo>,
    /// The process that named the volume last: it brings the volume to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<Caller>,
}

impl LetGoes {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// A folder is about to be let go of.
    pub fn note(&mut self, consumer: &ConsumerId, at: u64, when: &Uptime, by: Option<Caller>) {
        // Of another start of the machine nothing is left.
        self.folders.retain(|_, one| one.when.boot == when.boot);
        let new = LetGo { at, when: when.clone(), back: None };
        let known = self.folders.get(consumer).filter(|one| one.back.is_none()).cloned();
        self.folders.insert(consumer.clone(), known.unwrap_or(new));
        self.asked_by = by;
    }

    /// The folder is mounted again.
    pub fn is_back(&mut self, consumer: &ConsumerId, at: u64) {
        if let Some(one) = self.folders.get_mut(consumer) {
            one.back.get_or_insert(at);
        }
    }

    /// Those of this start of the machine that are not mounted again.
    pub fn open<'a>(&'a self, boot: &'a str) -> impl Iterator<Item = (&'a ConsumerId, &'a LetGo)> {
        self.folders.iter().filter(move |(_, one)| one.when.boot == boot && one.back.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_let_go_is_of_one_start_of_the_machine() {
        let (one, two) = (ConsumerId::parse("u").unwrap(), ConsumerId::parse("v").unwrap());
        let when = |boot: &str, seconds| Uptime { boot: boot.to_owned(), seconds };
        let caller = |pid| Some(Caller { pid, began: 7 });
        let mut all = LetGoes::default();
        all.note(&one, 1000, &when("a", 1), caller(3));
        // kubelet asks again before it is told that it is done.
        all.note(&one, 2000, &when("a", 2), caller(4));
        assert_eq!((all.folders[&one].at, all.asked_by.clone()), (1000, caller(4)));
        all.is_back(&one, 3000);
        all.is_back(&one, 4000);
        assert_eq!((all.folders[&one].back, all.open("a").count()), (Some(3000), 0));
        all.note(&one, 5000, &when("a", 5), caller(4));
        assert_eq!(
            (all.folders[&one].at, all.open("a").count(), all.open("b").count()),
            (5000, 1, 0)
        );
        all.note(&two, 9000, &when("b", 1), None);
        assert_eq!(all.folders.len(), 1);
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<LetGoes>(&text).unwrap(), all);
    }
}
