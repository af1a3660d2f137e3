//! A copy of the source with the mutants in it, and what is built from it.

use crate::listed::Mutant;
use crate::schemata::{self, Woven};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug)]
pub struct Tree {
    /// The source as it is.
    pub from: PathBuf,
    /// The copy.
    pub at: PathBuf,
    pub build: PathBuf,
}

/// Why a mutant is not played.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Left {
    /// It is no program.
    Unviable,
    /// There is no branch for it.
    NoBranch(String),
}

const RUNTIME: &str = include_str!("../active.rs");
const MUTANT: &str = "src/model/mutant.rs";

/// The same for a test's file: PIDs begin again in each namespace, and cgroups are the machine's.
const CGROUPS: (&str, &str, &str) = (
    "tests/support/pods/cgroups.rs",
    "format!(\"incloud-disk-test-{}-{count}\", std::process::id())",
    "format!(\"incloud-disk-test-{}.{}-{count}\", std::env::var(\"INCLOUD_DISK_MUTANT_SHARD\").unwrap_or_default(), std::process::id())",
);

const MODEL: &str = "use incloud_disk_model as model;\n";
const MODEL_WITH_MUTANT: &str = "use incloud_disk_model::{self as model, mutant};\n";

/// What of the copy is not the mutants': (file, text, other text). A text that is no more there is an error.
const PATCHES: [(&str, &str, &str); 10] = [
    ("src/model/mod.rs", "pub mod mount;\n", "pub mod mount;\npub mod mutant;\n"),
    ("src/ports/mod.rs", MODEL, MODEL_WITH_MUTANT),
    ("src/host/mod.rs", MODEL, MODEL_WITH_MUTANT),
    ("src/cloud/mod.rs", MODEL, MODEL_WITH_MUTANT),
    ("src/driver/mod.rs", MODEL, MODEL_WITH_MUTANT),
    ("src/shield/mod.rs", MODEL, MODEL_WITH_MUTANT),
    ("src/node/mod.rs", MODEL, MODEL_WITH_MUTANT),
    (
        "src/lib.rs",
        "pub use incloud_disk_model as model;\n",
        "pub use incloud_disk_model::{self as model, mutant};\n",
    ),
    // The tests have a PID namespace, for a driver that is wrong must not find the machine's processes.
    (
        "src/host/census/visibility.rs",
        "if pids != INITIAL_PIDS {",
        "if pids != INITIAL_PIDS && Some(pids) != crate::mutant::processes() {",
    ),
    (
        "src/host/entry.rs",
        ".envs(environment);",
        ".envs(environment).envs(crate::mutant::environment());",
    ),
];

impl Tree {
    /// Makes the copy, finds out which mutants are programs, and says of the others why they are not.
    pub fn weave(&self, mutants: &[Mutant], left: &mut BTreeMap<u32, Left>) -> Result<(), String> {
        self.copy()?;
        for round in 1.. {
            let woven = self.write(mutants, left)?;
            let errors = self.errors()?;
            if errors.is_empty() {
                return Ok(());
            }
            let before = left.len();
            let mut unexplained = Vec::new();
            for error in &errors {
                if !blame(error, &woven, left) {
                    unexplained.push(error.text.clone());
                }
            }
            println!("round {round}: {} errors, {} mutants are left out", errors.len(), left.len());
            if left.len() == before {
                return Err(format!(
                    "the copy does not compile, and no mutant is the reason:\n{}",
                    unexplained.join("\n")
                ));
            }
        }
        unreachable!("rounds end")
    }

    fn copy(&self) -> Result<(), String> {
        fs::create_dir_all(&self.at).map_err(|error| error.to_string())?;
        let (mut here, mut there) = (Vec::new(), Vec::new());
        files_below(&self.from, Path::new(""), &mut here)?;
        files_below(&self.at, Path::new(""), &mut there)?;
        for path in here.iter().filter(|path| !path.starts_with("src")) {
            if path.as_path() == Path::new(CGROUPS.0) {
                let text =
                    fs::read_to_string(self.from.join(path)).map_err(|error| error.to_string())?;
                write_if_new(&self.at.join(path), &patched(&text, CGROUPS)?)?;
                continue;
            }
            let (from, to) = (self.from.join(path), self.at.join(path));
            // What is the same keeps its time, so that cargo builds only what is new.
            if fs::read(&from).ok() != fs::read(&to).ok() {
                let made = to.parent().map_or(Ok(()), fs::create_dir_all);
                made.and_then(|()| fs::copy(&from, &to))
                    .map_err(|error| format!("{}: {error}", to.display()))?;
            }
        }
        for gone in there.iter().filter(|path| !path.starts_with("src") && !here.contains(path)) {
            fs::remove_file(self.at.join(gone)).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Writes `src` with all mutants but those that are left out.
    fn write(
        &self,
        mutants: &[Mutant],
        left: &mut BTreeMap<u32, Left>,
    ) -> Result<HashMap<String, Woven>, String> {
        let mut woven = HashMap::new();
        let mut sources = Vec::new();
        files_below(&self.from, Path::new("src"), &mut sources)?;
        for path in &sources {
            let text = fs::read_to_string(self.from.join(path))
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let name = path.to_string_lossy().into_owned();
            let of_file: Vec<&Mutant> = mutants
                .iter()
                .filter(|one| one.file == name && !left.contains_key(&one.number))
                .collect();
            let mut new = text.clone();
            if !of_file.is_empty() {
                let result =
                    schemata::weave(&text, &of_file).map_err(|error| format!("{name}: {error}"))?;
                for (number, reason) in &result.left {
                    let is_none = *reason == schemata::LET;
                    let why =
                        if is_none { Left::Unviable } else { Left::NoBranch((*reason).to_owned()) };
                    left.insert(*number, why);
                }
                new.clone_from(&result.text);
                woven.insert(name.clone(), result);
            }
            for patch in PATCHES.iter().filter(|patch| patch.0 == name) {
                new = patched(&new, *patch)?;
            }
            write_if_new(&self.at.join(path), &new)?;
        }
        write_if_new(&self.at.join(MUTANT), RUNTIME)?;
        let mut copied = Vec::new();
        files_below(&self.at, Path::new("src"), &mut copied)?;
        for gone in copied
            .iter()
            .filter(|path| !sources.contains(path) && path.as_path() != Path::new(MUTANT))
        {
            fs::remove_file(self.at.join(gone)).map_err(|error| error.to_string())?;
        }
        Ok(woven)
    }

    fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.at).env("CARGO_TARGET_DIR", &self.build).stdin(Stdio::null());
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("RUSTFLAGS", "--cap-lints=allow");
        command
    }

    fn errors(&self) -> Result<Vec<CompilerError>, String> {
        let mut command = self.cargo();
        command.args(["check", "--lib", "--locked", "--message-format=json"]);
        let output = command.output().map_err(|error| format!("cargo: {error}"))?;
        let mut errors = Vec::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
            let message = &value["message"];
            if value["reason"] != "compiler-message" || message["level"] != "error" {
                continue;
            }
            let spans = message["spans"].as_array().cloned().unwrap_or_default();
            if spans.is_empty() {
                // "aborting due to …"
                continue;
            }
            let mut of_error = Vec::new();
            for span in &spans {
                let number = |name: &str| {
                    span[name].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(0)
                };
                let file = span["file_name"].as_str().unwrap_or_default().to_owned();
                let is_primary = span["is_primary"] == true;
                of_error.push((is_primary, file, number("byte_start")..number("byte_end")));
            }
            // What is pointed at first, then what is shown beside it.
            of_error.sort_by_key(|(is_primary, _, _)| !is_primary);
            let text = message["rendered"].as_str().unwrap_or_default().to_owned();
            errors.push(CompilerError { text, spans: of_error });
        }
        if errors.is_empty() && !output.status.success() {
            return Err(format!("cargo check: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(errors)
    }

    /// Builds the tests of these rings; answers their programs by name: `lib` has one for each crate, `lib CRATE`.
    pub fn programs(&self, rings: &[&str]) -> Result<BTreeMap<String, PathBuf>, String> {
        let mut command = self.cargo();
        command.args(["test", "--no-run", "--locked", "--message-format=json"]);
        for ring in rings {
            if *ring == "lib" {
                command.arg("--lib");
            } else {
                command.args(["--test", ring]);
            }
        }
        let output = command.output().map_err(|error| format!("cargo: {error}"))?;
        if !output.status.success() {
            return Err(format!(
                "cargo test --no-run: {}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        let mut programs = BTreeMap::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
            let (Some(path), Some(name)) =
                (value["executable"].as_str(), value["target"]["name"].as_str())
            else {
                continue;
            };
            let is_lib = value["target"]["kind"]
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|kind| kind == "lib"));
            if value["profile"]["test"] == true {
                let ring = if is_lib { format!("lib {name}") } else { name.to_owned() };
                programs.insert(ring, PathBuf::from(path));
            }
        }
        Ok(programs)
    }
}

struct CompilerError {
    text: String,
    /// Whether it is what the error is about, the file, the bytes.
    spans: Vec<(bool, String, Range<usize>)>,
}

/// Leaves out the mutant that an error comes from; answers whether one was found.
fn blame(
    error: &CompilerError,
    woven: &HashMap<String, Woven>,
    left: &mut BTreeMap<u32, Left>,
) -> bool {
    let touches =
        |one: &Range<usize>, other: &Range<usize>| one.start < other.end && other.start < one.end;
    for (_, file, range) in &error.spans {
        let Some(file) = woven.get(file) else { continue };
        let within = file
            .branches
            .iter()
            .filter(|(branch, number)| touches(branch, range) && !left.contains_key(number));
        if let Some((_, number)) = within.min_by_key(|(branch, _)| branch.len()) {
            left.insert(*number, Left::Unviable);
            return true;
        }
    }
    for (_, file, range) in &error.spans {
        let Some(file) = woven.get(file) else { continue };
        let around = file.nodes.iter().filter(|(node, of)| {
            touches(node, range) && of.iter().any(|number| !left.contains_key(number))
        });
        if let Some((_, numbers)) = around.min_by_key(|(node, _)| node.len()) {
            for number in numbers {
                let first = error.text.lines().next().unwrap_or_default();
                left.entry(*number).or_insert_with(|| {
                    Left::NoBranch(format!("its branch is no program: {first}"))
                });
            }
            return true;
        }
    }
    false
}

/// All files of a folder below `root`, without what is built.
fn files_below(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(|error| error.to_string())?;
        let path = folder.join(entry.file_name());
        let is_folder = entry.file_type().map_err(|error| error.to_string())?.is_dir();
        if is_folder && !matches!(entry.file_name().to_str(), Some("target" | ".git")) {
            files_below(root, &path, found)?;
        } else if !is_folder {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}

fn patched(text: &str, (file, old, other): (&str, &str, &str)) -> Result<String, String> {
    if text.contains(old) {
        Ok(text.replacen(old, other, 1))
    } else {
        Err(format!("{file} has no more {old:?}: tests/mutants/src/tree.rs"))
    }
}

fn write_if_new(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}
