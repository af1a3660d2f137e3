//! A node whose cloud is the test server.

use crate::server::{Delays, Server, World};
use crate::support::{Node, options};
use std::fs;

/// The cloud, and a node of it.
pub struct Scene {
    pub cloud: Server,
    pub node: Node,
    pub volume: String,
}

pub const PV: &str = "pvc-of-the-test";

impl Scene {
    /// Two servers, `node-a` (this machine) and `node-b`, and one volume.
    pub fn new() -> Self {
        Self::of(World::demo())
    }

    /// With a cloud that is done as soon as it has answered.
    pub fn of_immediate() -> Self {
        Self::of(World::demo().delays(Delays::none()))
    }

    pub fn of(world: World) -> Self {
        Self::served(world, Server::start)
    }

    /// With another way to serve, such as TLS.
    pub fn served(world: World, serve: impl FnOnce(World) -> Server) -> Self {
        let cloud = serve(world.server("node-a").server("node-b").volume("data", 1));
        let volume = cloud.world().volume_id("data");
        let node = Node::new();
        configure(&node, &cloud, "");
        Self { cloud, node, volume }
    }

    /// Writes the node's configuration anew, with more lines of TOML at its top.
    pub fn configure(&self, more: &str) {
        self.node.configure("");
        configure(&self.node, &self.cloud, more);
    }

    /// Another machine of the same cloud, with folders of its own.
    pub fn neighbour(&self, name: &str) -> Node {
        let node = self.node.neighbour(name);
        configure(&node, &self.cloud, "");
        node
    }

    pub fn server(&self, name: &str) -> String {
        self.cloud.world().server_id(name)
    }

    pub fn attach(&self, node: &str) -> [String; 3] {
        ["attach".to_owned(), options(&self.volume, PV, ""), node.to_owned()]
    }

    pub fn is_attached(&self, node: &str) -> [String; 3] {
        ["isattached".to_owned(), options(&self.volume, PV, ""), node.to_owned()]
    }

    pub fn detach(&self, node: &str) -> [String; 3] {
        ["detach".to_owned(), PV.to_owned(), node.to_owned()]
    }

    /// The servers that Cinder lists with the volume.
    pub fn attached_to(&self) -> Vec<String> {
        let world = self.cloud.world();
        let volume = world.storage.volume(&self.volume).unwrap();
        volume.servers().into_iter().map(str::to_owned).collect()
    }
}

/// Points a node at the cloud, with user and password.
pub fn configure(node: &Node, cloud: &Server, more: &str) {
    for path in node.config_paths() {
        let text = fs::read_to_string(path).unwrap();
        let own: Vec<&str> = text
            .lines()
            .filter(|line| {
                let ours = ["cloud.kind", "local.dir", "openstack."];
                !ours.iter().any(|key| line.starts_with(key))
            })
            .collect();
        fs::write(path, access(cloud) + more + "\n" + &own.join("\n")).unwrap();
    }
}

/// The lines of a configuration that say where the cloud is and who we are.
pub fn access(cloud: &Server) -> String {
    let url = cloud.auth_url();
    format!(
        "cloud.kind = \"openstack\"\nopenstack.auth_url = {url:?}\nopenstack.username = \"demo\"\n\
         openstack.password = \"demopass\"\nopenstack.user_domain_name = \"Default\"\n\
         openstack.project_name = \"demo\"\nopenstack.metadata_url = \"none\"\n"
    )
}
