//! The server as a program, for scenarios in other processes:
//! `CLOUD_SCRIPT=FILE.json CLOUD_URL=FILE openstack --ignored --exact serve::until_killed`

use crate::server::script::Script;
use crate::server::{Server, World};
use std::path::PathBuf;
use std::{env, fs, thread};

/// Writes its address once it can be asked.
#[test]
#[ignore = "serves until it is killed"]
fn until_killed() {
    let path = |name| env::var_os(name).map(PathBuf::from).expect(name);
    let (script, url) = (path("CLOUD_SCRIPT"), path("CLOUD_URL"));
    let mut world = World::demo();
    Script::parse(&fs::read(script).expect("the script")).expect("a script").apply(&mut world);
    let server = Server::start(world);
    // In one piece: who waits for the file never reads half of it.
    let half = url.with_extension("new");
    fs::write(&half, format!("{}\n", server.url())).expect("the address");
    fs::rename(&half, &url).expect("the address");
    loop {
        thread::park();
    }
}
