//! When the timer last looked after all volumes of this machine: without it, calls take over its work.

use super::{files, machine};
use crate::model::timestamp::Uptime;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The timer comes each minute.
const COMES_WITHIN: Duration = Duration::from_secs(120);

fn place(run_dir: &Path) -> PathBuf {
    run_dir.join("swept")
}

/// A look after all volumes begins. It does not depend on the note.
pub fn note(run_dir: &Path) {
    let text = serde_json::to_vec(&machine::uptime()).unwrap_or_default();
    if let Err(error) = files::replace_until_boot(&place(run_dir), &text) {
        tracing::debug!(%error, "the look is not noted");
    }
}

/// Whether one began not long ago.
pub fn is_recent(run_dir: &Path) -> bool {
    let text = files::read_if_there(&place(run_dir)).ok().flatten();
    let at: Option<Uptime> = text.and_then(|text| serde_json::from_str(&text).ok());
    let gap = at.and_then(|at| machine::uptime().since(&at));
    gap.is_some_and(|gap| gap < COMES_WITHIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_recent_for_two_minutes_of_this_boot() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_recent(folder.path()), "none was noted");
        note(folder.path());
        assert!(is_recent(folder.path()));
        let now = machine::uptime();
        for (boot, seconds) in
            [(now.boot.as_str(), now.seconds.saturating_sub(120)), ("another", now.seconds)]
        {
            let at = Uptime { boot: boot.to_owned(), seconds };
            std::fs::write(place(folder.path()), serde_json::to_string(&at).unwrap()).unwrap();
            assert!(!is_recent(folder.path()), "{at:?}");
        }
    }
}
