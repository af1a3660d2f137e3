//! A world as JSON, which `serve --script` begins with.
//!
//! ```json
//! {
//!   "servers": [{"name": "node-a", "id": "8a1c..."}],
//!   "volumes": [{"name": "data", "id": "5f0e...", "size": 2}],
//!   "metadata_of": "node-a",
//!   "hook": "/path/to/plug"
//! }
//! ```

use super::hook::Hook;
use super::world::World;
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    servers: Vec<ServerScript>,
    volumes: Vec<VolumeScript>,
    metadata_of: Option<String>,
    hook: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerScript {
    name: String,
    id: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VolumeScript {
    name: String,
    id: String,
    size: u64,
}

impl Script {
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }

    /// Adds to a world what the script says.
    pub fn apply(self, world: &mut World) {
        for server in self.servers {
            world.add_server(&server.name, &server.id, "demo");
        }
        for volume in self.volumes {
            world.add_volume(&volume.name, &volume.id, volume.size, "demo");
        }
        world.settings.metadata_of = self.metadata_of;
        world.hook = self.hook.map_or(Hook::None, Hook::Program);
    }
}
