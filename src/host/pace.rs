//! How long the cloud usually takes for a change, as the processes of this machine have seen it: a look
//! that comes too early is a request for nothing, one that comes too late is time lost.

use super::files;
use crate::model::cloud::asking::usual;
use crate::ports::store::{self, Change};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What was seen. A file that cannot be read or written only means that nothing is known.
#[derive(Debug, Clone)]
pub struct PaceFile {
    path: PathBuf,
}

/// Milliseconds, the latest last.
type Seen = BTreeMap<Change, Vec<u64>>;

impl PaceFile {
    /// What is known below the run folder.
    pub fn below(run_dir: &Path) -> Self {
        Self { path: run_dir.join("pace") }
    }

    fn seen(&self) -> Seen {
        let text = files::read_if_there(&self.path).ok().flatten().unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }
}

impl store::Pace for PaceFile {
    fn usual(&self, change: Change) -> Option<Duration> {
        usual::usual(self.seen().get(&change)?).map(Duration::from_millis)
    }

    fn took(&self, change: Change, time: Duration) {
        let mut seen = self.seen();
        let times = seen.entry(change).or_default();
        usual::add(times, u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        // Of two processes at once one is forgotten.
        let json = serde_json::to_vec(&seen).unwrap_or_default();
        if let Err(error) = files::replace(&self.path, &json) {
            tracing::debug!(%error, "how long the cloud takes is not remembered");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::store::Pace as _;

    #[test]
    fn quick_times_are_usual_and_one_storm_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let pace = PaceFile::below(folder.path());
        assert_eq!(pace.usual(Change::Attach), None);
        for millis in [900, 5000, 1000] {
            pace.took(Change::Attach, Duration::from_millis(millis));
        }
        assert_eq!(pace.usual(Change::Attach), Some(Duration::from_millis(900)));
        assert_eq!(pace.usual(Change::Detach), None);
        for n in 1..=40 {
            pace.took(Change::Detach, Duration::from_millis(900 * n));
        }
        assert!(pace.usual(Change::Detach).unwrap() < Duration::from_secs(5));
        for _ in 0..usual::LAST {
            pace.took(Change::Attach, Duration::from_millis(20));
        }
        assert_eq!(pace.usual(Change::Attach), Some(Duration::from_millis(20)));
        std::fs::write(folder.path().join("pace"), "{").unwrap();
        assert_eq!(pace.usual(Change::Attach), None, "a torn file is none");
    }
}
