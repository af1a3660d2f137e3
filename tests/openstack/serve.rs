//! `serve --listen 127.0.0.1:0 --script FILE.json [--ready-file FILE] [--until-killed]`
//!
//! Prints its address (and writes it to the ready file) once it can be asked, and serves until its
//! standard input closes or a signal ends it; with `--until-killed` only the signal does.

use crate::server::connection::Plain;
use crate::server::script::Script;
use crate::server::{Server, World};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

/// What the arguments say.
#[derive(Debug)]
struct Wish {
    listen: String,
    script: Option<PathBuf>,
    ready_file: Option<PathBuf>,
    until_killed: bool,
}

impl Wish {
    fn of(arguments: &[String]) -> Result<Self, String> {
        let listen = "127.0.0.1:0".to_owned();
        let mut wish = Self { listen, script: None, ready_file: None, until_killed: false };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value =
                || rest.next().cloned().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--listen" => wish.listen = value()?,
                "--script" => wish.script = Some(value()?.into()),
                "--ready-file" => wish.ready_file = Some(value()?.into()),
                "--until-killed" => wish.until_killed = true,
                _ => return Err(format!("unknown argument {argument}")),
            }
        }
        Ok(wish)
    }
}

/// Serves; the arguments are those after `serve`.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    match Wish::of(arguments).and_then(|wish| serve(&wish)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("openstack serve: {why}");
            ExitCode::from(2)
        }
    }
}

fn serve(wish: &Wish) -> Result<(), String> {
    let mut world = World::demo();
    if let Some(path) = &wish.script {
        let named = |why: String| format!("{}: {why}", path.display());
        let text = fs::read(path).map_err(|error| named(error.to_string()))?;
        Script::parse(&text).and_then(|script| script.apply(&mut world)).map_err(named)?;
    }
    let server = Server::listen(world, &wish.listen, Box::new(Plain))
        .map_err(|error| format!("{}: {error}", wish.listen))?;
    if let Some(path) = &wish.ready_file {
        announce(path, &server.url()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("{}", server.url());
    let _ = io::stdout().flush();
    if wish.until_killed {
        loop {
            thread::park();
        }
    }
    // A process that started this server and dies takes it along: the pipe closes.
    let mut rest = Vec::new();
    let _ = io::stdin().read_to_end(&mut rest);
    Ok(())
}

/// Writes the address in one piece: who waits for the file never reads half of it.
fn announce(path: &Path, url: &str) -> io::Result<()> {
    let mut half = path.as_os_str().to_owned();
    half.push(".new");
    fs::write(&half, format!("{url}\n"))?;
    fs::rename(&half, path)
}
