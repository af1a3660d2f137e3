//! Nova: servers and its own view of which volumes they have.

pub mod actions;
pub mod attach;
pub mod body;
pub mod host;
pub mod operations;
pub mod routes;
pub mod rows;
pub mod servers;
pub mod show;

use actions::Action;

/// Nova's view.
#[derive(Debug, Default)]
pub struct Compute {
    /// Oldest first.
    pub servers: Vec<Server>,
}

#[derive(Debug, Clone)]
pub struct Server {
    pub id: String,
    pub name: String,
    /// The project's id.
    pub project: String,
    /// The owner's id.
    pub user: String,
    pub region: String,
    pub zone: String,
    /// `active`, `stopped`, `paused`, `building`, ...
    pub vm_state: String,
    /// `rebooting`, `migrating`, ... while something goes on.
    pub task_state: Option<String>,
    pub locked: bool,
    /// Seconds since 1970.
    pub created: i64,
    pub updated: i64,
    /// The volumes that Nova believes are at the server; without the root disk.
    pub rows: Vec<Row>,
    pub actions: Vec<Action>,
}

/// Nova's record of a volume at a server: a block device mapping.
#[derive(Debug, Clone)]
pub struct Row {
    pub volume: String,
    /// The hypervisor's guess, not what the guest sees.
    pub device: String,
    /// Cinder's attachment; none in a ghost (K1).
    pub attachment: Option<String>,
}

impl Server {
    /// The row of a volume.
    pub fn row(&self, volume: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.volume == volume)
    }

    /// The row of a volume, to be changed.
    pub fn row_mut(&mut self, volume: &str) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.volume == volume)
    }

    /// The next free device name; the root disk has the first.
    pub fn free_device(&self, prefix: &str) -> String {
        let taken = |name: &String| self.rows.iter().any(|row| row.device == *name);
        let mut names =
            ('b'..='z').map(|letter| format!("{prefix}{letter}")).chain(('a'..='z').flat_map(
                |first| ('a'..='z').map(move |second| format!("{prefix}{first}{second}")),
            ));
        names.find(|name| !taken(name)).unwrap_or_default()
    }

    /// `status` as the API makes it of the two states.
    pub fn status(&self) -> &'static str {
        match (self.vm_state.as_str(), self.task_state.as_deref().unwrap_or_default()) {
            ("active", "rebooting" | "reboot_pending" | "reboot_started") => "REBOOT",
            ("active", task) if task.starts_with("rebooting_hard") => "HARD_REBOOT",
            ("active", "migrating") => "MIGRATING",
            ("active", "rebuilding") => "REBUILD",
            ("active" | "stopped", task) if task.starts_with("resize_") => "RESIZE",
            ("active", _) => "ACTIVE",
            ("stopped", _) => "SHUTOFF",
            ("paused", _) => "PAUSED",
            ("suspended", _) => "SUSPENDED",
            ("error", _) => "ERROR",
            ("building", _) => "BUILD",
            ("shelved", _) => "SHELVED",
            ("shelved_offloaded", _) => "SHELVED_OFFLOADED",
            ("rescued", _) => "RESCUE",
            ("resized", _) => "VERIFY_RESIZE",
            ("soft-delete", _) => "SOFT_DELETED",
            _ => "UNKNOWN",
        }
    }
}

impl Compute {
    pub fn server(&self, id: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.id == id)
    }

    pub fn server_mut(&mut self, id: &str) -> Option<&mut Server> {
        self.servers.iter_mut().find(|server| server.id == id)
    }

    /// Ids of the servers that have a row of a volume.
    pub fn servers_with(&self, volume: &str) -> Vec<&str> {
        let having = self.servers.iter().filter(|server| server.row(volume).is_some());
        having.map(|server| server.id.as_str()).collect()
    }
}
