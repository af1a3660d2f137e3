//! The previous version, built once from the git history, below cargo's target directory.

use crate::support::{DISK, Node, output_of, skip};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The commit of the previous version.
const COMMIT: &str = "7ba4fed6ef1e6f5ec8d86c97b1da28263bf3f97b";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Previous,
    Current,
}

use Version::{Current, Previous};

/// An upgrade and a rollback.
pub const ORDERS: [[Version; 2]; 2] = [[Previous, Current], [Current, Previous]];

impl Version {
    fn build(self) -> (&'static str, &'static Path) {
        match self {
            Previous => ("previous", program().expect("its history").as_ref().unwrap()),
            Current => ("current", Path::new(DISK)),
        }
    }
}

/// The same node, whose calls these versions answer in turn. Each has a configuration file of its own, because the
/// previous version rejects keys that it does not know.
pub fn driven_by(node: &Node, versions: impl IntoIterator<Item = Version>) -> Node {
    node.driven_by(versions.into_iter().map(Version::build))
}

/// Whether the previous version can be built, which it is by now.
pub fn is_built(test: &str) -> bool {
    match program() {
        None => skip(test, &format!("needs git: this checkout does not have commit {COMMIT}")),
        Some(Err(error)) => panic!("cannot build the previous version, {COMMIT}: {error}"),
        Some(Ok(_)) => return true,
    }
    false
}

/// Nothing where the history is missing.
fn program() -> Option<&'static Result<PathBuf, String>> {
    static PROGRAM: OnceLock<Option<Result<PathBuf, String>>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let target = Path::new(DISK).ancestors().nth(2).expect("cargo's target directory");
        let folder = target.join("versions").join(COMMIT);
        let built = folder.join("target/debug/disk");
        if built.exists() {
            return Some(Ok(built));
        }
        git(&["cat-file", "-e", &format!("{COMMIT}^{{commit}}")]).ok()?;
        Some(unpack(&folder).and_then(|source| build(&source, &folder)).map(|()| built))
    });
    program.as_ref()
}

/// The source of the commit; another process may unpack it at the same time.
fn unpack(folder: &Path) -> Result<PathBuf, String> {
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let source = folder.join("source");
    if !source.exists() {
        let fresh = tempfile::tempdir_in(made(folder)?).map_err(|error| error.to_string())?;
        let (archive, tree) = (fresh.path().join("archive.tar"), fresh.path().join("source"));
        git(&["archive", "--format=tar", "-o", &text(&archive), COMMIT])?;
        run(Command::new("tar").args(["-xf", &text(&archive), "-C", &text(made(&tree)?)]))?;
        if let Err(error) = fs::rename(&tree, &source)
            && !source.exists()
        {
            return Err(error.to_string());
        }
    }
    Ok(source)
}

fn made(folder: &Path) -> Result<&Path, String> {
    fs::create_dir_all(folder).map(|()| folder).map_err(|error| error.to_string())
}

/// A debug build has the steps at which a call can be killed.
fn build(source: &Path, folder: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--bin", "disk"]).current_dir(source);
    command.env("CARGO_TARGET_DIR", folder.join("target")).env("INCLOUD_DISK_COMMIT", COMMIT);
    run(&mut command)
}

/// Root may look into the checkout of another user, which git refuses by default.
fn git(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("git");
    command.args(["-C", env!("CARGO_MANIFEST_DIR"), "-c", "safe.directory=*"]).args(arguments);
    run(&mut command)
}

fn run(command: &mut Command) -> Result<(), String> {
    if Command::new(command.get_program()).arg("--version").output().is_err() {
        return Err(format!("cannot run {}", command.get_program().to_string_lossy()));
    }
    let output = output_of(command);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {complaint}")) }
}

/// `tests/run` runs this test alone as the user who builds, so that root leaves nothing in the checkout.
#[test]
fn both_versions_answer_in_turn() {
    needs!(previous);
    let node = driven_by(&Node::new(), ORDERS[0]);
    let versions = [(); 4].map(|()| node.verb(&["--version"]).unwrap());
    let is_previous = |version: &String| version.contains(&COMMIT[..12]);
    assert_eq!(versions.each_ref().map(is_previous), [true, false, true, false], "{versions:?}");
}
