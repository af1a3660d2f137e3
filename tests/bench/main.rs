//! What a call costs, beside what people would use instead: `tests/run bench`, or `cargo bench`. A table, a file with
//! all values. Figures only: nothing here passes or fails by time.
//!
//! ```text
//! bench [--brief] [--long] [--driver FILE] [--libudev FILE] [--before FILE] [GROUP...]
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::assigning_clones,
    clippy::unchecked_time_subtraction,
    clippy::unused_self,
    clippy::unnecessary_debug_formatting,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    dead_code,
    reason = "a benchmark prints, and fails by panicking"
)]

mod beside;
mod budgets;
mod calls;
mod cloud;
mod counts;
mod crowd;
mod devices;
mod figures;
mod guard;
mod heal;
mod looking;
mod memory;
mod mounts;
mod node;
mod program;
mod table;
mod turns;

#[path = "../cloud/scene.rs"]
mod scene;
#[path = "../openstack/server/mod.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;

use beside::Beside;
use counts::Counters;
use figures::{Figures, Row};
use node::Driver;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// All that is measured, in this order; the words that choose.
const GROUPS: [&str; 9] =
    ["size", "calls", "mounts", "memory", "devices", "looking", "guard", "heal", "cloud"];

/// What was asked for.
#[derive(Debug, Default)]
struct Wish {
    brief: bool,
    long: bool,
    driver: Option<PathBuf>,
    libudev: Option<PathBuf>,
    before: Option<PathBuf>,
    groups: Vec<String>,
}

impl Wish {
    fn of(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut wish = Self::default();
        let mut rest = arguments;
        while let Some(word) = rest.next() {
            let mut file = || rest.next().map(PathBuf::from).ok_or(format!("{word} needs a file"));
            match word.as_str() {
                "--brief" => wish.brief = true,
                "--long" => wish.long = true,
                "--driver" => wish.driver = Some(file()?),
                "--libudev" => wish.libudev = Some(file()?),
                "--before" => wish.before = Some(file()?),
                // cargo's own.
                "--bench" => {}
                group if GROUPS.contains(&group) => wish.groups.push(word),
                _ => return Err(format!("unknown word: {word}; there are {}", GROUPS.join(", "))),
            }
        }
        Ok(wish)
    }

    fn wants(&self, group: &str) -> bool {
        self.groups.is_empty() || self.groups.iter().any(|one| one == group)
    }
}

/// A run, with what was found so far.
pub struct Run {
    figures: Figures,
    drivers: Vec<Driver>,
    beside: Beside,
    counters: Counters,
    is_root: bool,
    is_long: bool,
    is_brief: bool,
}

impl Run {
    /// How often something is done: seldom where it was asked for.
    fn rounds(&self, usual: usize) -> usize {
        if self.is_brief { usual.min(5) } else { usual }
    }

    fn add(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.figures.rows.extend(rows);
    }

    fn tell(&self, what: &str) {
        eprintln!("    {what}");
    }
}

fn main() -> ExitCode {
    let wish = match Wish::of(std::env::args().skip(1)) {
        Ok(wish) => wish,
        Err(why) => {
            eprintln!("bench: {why}");
            return ExitCode::from(2);
        }
    };
    // Beside the build: .../target/tmp is cargo's folder for this program.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench");
    print!("{}", table::text(&measured(&wish, &folder)));
    ExitCode::SUCCESS
}

fn measured(wish: &Wish, folder: &Path) -> Figures {
    let begin = Instant::now();
    fs::create_dir_all(folder).unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let is_root = support::private_mounts("bench");
    let beside = Beside::made_in(folder);
    let counters = Counters::in_folder(folder, beside.launcher.clone().ok());
    let drivers = drivers(wish, folder);
    let mut run = Run {
        figures: Figures::default(),
        drivers,
        beside,
        counters,
        is_root,
        is_long: wish.long,
        is_brief: wish.brief,
    };
    run.figures.machine.look();
    for group in GROUPS.into_iter().filter(|group| wish.wants(group)) {
        // Both are measured in the same crowds.
        let is_crowd = [guard::GROUP, heal::GROUP].contains(&group);
        if !is_crowd {
            run.tell(group);
        }
        match group {
            "size" => size(&mut run),
            "calls" => calls::measure(&mut run),
            "mounts" => mounts::measure(&mut run),
            "memory" => memory::measure(&mut run),
            "devices" => devices::measure(&mut run),
            "looking" => looking::measure(&mut run),
            "cloud" => cloud::measure(&mut run),
            "heal" if wish.wants("guard") => {}
            _ => crowd::measure(&mut run, |group| wish.wants(group)),
        }
    }
    run.figures.machine.look_again(begin.elapsed());
    let file = folder.join("figures.json");
    fs::write(&file, serde_json::to_string_pretty(&run.figures).unwrap() + "\n").unwrap();
    eprintln!("    all values: {}", file.display());
    run.figures
}

/// The builds of the driver that are measured, each as a copy: what a linker wrote lies in smaller pieces in memory,
/// and each costs a fault.
fn drivers(wish: &Wish, folder: &Path) -> Vec<Driver> {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_disk"));
    let mut wanted = vec![("", wish.driver.clone().unwrap_or(built))];
    wanted.extend(wish.libudev.clone().map(|file| (", with libudev", file)));
    wanted.extend(wish.before.clone().map(|file| (", before", file)));
    let copied = |(mark, file): (&'static str, PathBuf)| {
        let copy = folder.join(format!("disk{}", mark.replace([',', ' '], "-")));
        support::copy_program(file, &copy);
        Driver { mark, file: copy }
    };
    wanted.into_iter().map(copied).collect()
}

/// How large the programs are.
fn size(run: &mut Run) {
    let rows: Vec<Row> = run
        .drivers
        .iter()
        .map(|driver| {
            let is_static =
                !String::from_utf8_lossy(&fs::read(&driver.file).unwrap()).contains("/ld-linux");
            let name = if is_static { "static program" } else { "program with libraries" };
            let name = match driver.mark {
                ", before" => format!("{name}, before"),
                _ => name.to_owned(),
            };
            Row { bytes: Some(fs::metadata(&driver.file).unwrap().len()), ..Row::new("size", name) }
        })
        .collect();
    run.add(rows);
}
