//! The mutants, as cargo-mutants lists them: its operators say what a mutant is.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mutant {
    /// From 1 on, in this list alone.
    pub number: u32,
    pub file: String,
    pub function: String,
    pub genre: Genre,
    pub start: Place,
    pub replacement: String,
    /// What it does, without lines: `src/a.rs: Type::function: replace && with ||`, and `(2)` behind the second one that
    /// reads so. It stays while code moves.
    pub key: String,
}

#[derive(Deserialize)]
struct Line {
    name: String,
    file: String,
    function: Option<Function>,
    genre: Genre,
    span: Span,
    replacement: String,
}

#[derive(Deserialize)]
struct Function {
    function_name: String,
}

#[derive(Deserialize)]
struct Span {
    start: Place,
}

/// What cargo-mutants lists for these files of the tree, or for what a diff has changed.
pub fn list(
    program: &Path,
    tree: &Path,
    files: &[String],
    diff: Option<&Path>,
) -> Result<Vec<Mutant>, String> {
    let mut command = Command::new(program);
    command.current_dir(tree).args([
        "mutants",
        "--list",
        "--json",
        "--workspace",
        "--no-config",
        "--line-col=true",
    ]);
    for file in files {
        command.arg("--file").arg(file);
    }
    if let Some(diff) = diff {
        command.arg("--in-diff").arg(diff);
    }
    let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("cargo-mutants: {}", String::from_utf8_lossy(&output.stderr)));
    }
    if output.stdout.is_empty() {
        return Ok(Vec::new());
    }
    let lines: Vec<Line> = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo-mutants' list: {error}"))?;
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut mutants = Vec::new();
    for line in lines {
        let place = format!("{}:{}:{}: ", line.file, line.span.start.line, line.span.start.column);
        let function = line.function.map(|function| function.function_name).unwrap_or_default();
        let does = line
            .name
            .strip_prefix(&place)
            .unwrap_or(&line.name)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let does = does.strip_suffix(&format!(" in {function}")).unwrap_or(&does).to_owned();
        let mut key = format!("{}: {function}: {does}", line.file);
        let times = seen.entry(key.clone()).or_default();
        *times += 1;
        if *times > 1 {
            key += &format!(" ({times})");
        }
        let number = u32::try_from(mutants.len() + 1).map_err(|_| "too many mutants")?;
        mutants.push(Mutant {
            number,
            file: line.file,
            function,
            genre: line.genre,
            start: line.span.start,
            replacement: line.replacement,
            key,
        });
    }
    Ok(mutants)
}
