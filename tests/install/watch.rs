//! What kubelet is told of its plugin folder: it watches folders by inotify and ignores names that
//! begin with a dot.

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::path::Path;

/// Events of folders.
#[derive(Debug)]
pub struct Watch(Inotify);

impl Watch {
    pub fn on(folder: &Path) -> Self {
        let watch = Self(Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).unwrap());
        watch.also(folder);
        watch
    }

    /// One more folder.
    pub fn also(&self, folder: &Path) {
        let events = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_MOVE;
        self.0.add_watch(folder, events).unwrap();
    }

    /// What happened to visible names since the last look.
    pub fn seen(&self) -> Vec<(String, AddWatchFlags)> {
        let mut seen = Vec::new();
        while let Ok(events) = self.0.read_events() {
            for event in events {
                assert!(!event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW), "events were lost");
                let name = event.name.unwrap_or_default().into_string().unwrap();
                if !name.starts_with('.') {
                    seen.push((name, event.mask));
                }
            }
        }
        seen
    }
}
