//! The server as a program, for scenarios in other processes:
//! `CLOUD_SCRIPT=FILE.json CLOUD_URL=FILE openstack --exact serve::a_program_serves_what_its_script_says`

use crate::client::ask;
use crate::server::script::Script;
use crate::server::{Server, World};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// Serves until it is killed; writes its address once it can be asked.
fn serve(script: &Path, url: &Path) -> ! {
    let mut world = World::demo();
    Script::parse(&fs::read(script).expect("the script")).expect("a script").apply(&mut world);
    let server = Server::start(world);
    // In one piece: who waits for the file never reads half of it.
    let half = url.with_extension("new");
    fs::write(&half, format!("{}\n", server.url())).expect("the address");
    fs::rename(&half, url).expect("the address");
    loop {
        thread::park();
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_serves_what_its_script_says() {
    const SERVER: &str = "6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5";
    if let (Some(script), Some(url)) = (env::var_os("CLOUD_SCRIPT"), env::var_os("CLOUD_URL")) {
        serve(Path::new(&script), Path::new(&url));
    }
    let folder = tempfile::tempdir().unwrap();
    let (script, url) = (folder.path().join("script"), folder.path().join("url"));
    let text = format!(
        r#"{{"servers": [{{"name": "a-node", "id": "{SERVER}"}}], "metadata_of": "a-node"}}"#
    );
    fs::write(&script, text).unwrap();
    let mut program = Command::new(env::current_exe().unwrap());
    program.args(["--exact", "serve::a_program_serves_what_its_script_says"]);
    program.env("CLOUD_SCRIPT", &script).env("CLOUD_URL", &url).stdout(Stdio::null());
    let _program = Killed(program.spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(20);
    while !url.exists() {
        assert!(Instant::now() < end, "it writes no address");
        thread::sleep(Duration::from_millis(10));
    }
    let url = fs::read_to_string(&url).unwrap();
    let answer = ask(url.trim(), "GET", "/openstack/latest/meta_data.json", &[], "").unwrap();
    let text = String::from_utf8(answer.body).unwrap();
    assert!(answer.status == 200 && text.contains(SERVER), "{} {text}", answer.status);
}
