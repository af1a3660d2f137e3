//! `OpenStack`'s adapter, over real HTTP to the project's own server.

use crate::server::{Cut, Fault, Server, World, ids};
use crate::suite::Subject;
use incloud_disk::cloud::openstack::{self, OpenStack, OwnNode};
use incloud_disk::configuration::Config;
use incloud_disk::model::cloud::access::Access;
use incloud_disk::model::ids::{NodeName, ServerId, VolumeId};
use incloud_disk::ports::cloud::Cloud;
use std::collections::BTreeMap;
use tempfile::TempDir;

struct Remote {
    server: Server,
    access: Access,
    run: TempDir,
}

impl Remote {
    #[expect(clippy::unnecessary_wraps, reason = "other clouds cannot be on every machine")]
    fn new(_: &str) -> Option<Self> {
        let server = Server::start(World::demo().server("node-a").server("node-b"));
        let text = format!(
            "cloud.kind = \"openstack\"\nopenstack.auth_url = {:?}\nopenstack.username = \"demo\"\n\
             openstack.password = \"demopass\"\nopenstack.user_domain_name = \"Default\"\n\
             openstack.project_name = \"demo\"\nopenstack.metadata_url = \"none\"\n",
            server.auth_url()
        );
        let config = Config::parse(&text, "the suite").unwrap();
        let access = openstack::access(&config.openstack, "the suite", |_| None).unwrap();
        Some(Self { server, access, run: TempDir::new().unwrap() })
    }
}

impl Subject for Remote {
    fn cloud(&self) -> Box<dyn Cloud + '_> {
        let name = self.nodes()[0].clone();
        let own = self.server.world().server_id("node-a");
        let server = Some(ServerId::parse(&own).unwrap());
        let node = OwnNode { name, is_name_certain: true, server, others: BTreeMap::new() };
        Box::new(OpenStack::new(self.access.clone(), self.run.path(), node, None))
    }

    fn make(&self) -> VolumeId {
        let id = ids::uuid();
        self.server.world().add_volume("of-the-suite", &id, 1, "demo");
        VolumeId::parse(&id).unwrap()
    }

    fn node_without_server(&self) -> Option<NodeName> {
        Some(NodeName::parse("node").unwrap())
    }

    fn troubles(&self) -> Vec<&'static str> {
        vec!["a proxy's 503", "a proxy's 404", "a proxy's page", "no answer", "half an answer"]
    }

    fn begin(&self, trouble: &str) {
        let fault = Fault::on("*", "/**").always();
        let fault = match trouble {
            "a proxy's 503" => fault.proxy(503),
            "a proxy's 404" => fault.proxy(404),
            "a proxy's page" => fault.proxy(200),
            "no answer" => fault.cut(Cut::Before),
            _ => fault.cut(Cut::Middle),
        };
        let mut world = self.server.world();
        world.faults.clear();
        world.faults.push(fault);
    }

    fn hang(&self) -> bool {
        self.server.fault(Fault::on("*", "/**").always().hold(Cut::Before));
        true
    }
}

conforms!(Remote::new);
