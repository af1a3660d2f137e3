//! The sources of the program, as text that other tests judge.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where they are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The sources in a folder and below.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The same with their text, beside all tests: files of tests alone, and the tests at a file's end.
pub fn without_tests(folder: &Path) -> Vec<(PathBuf, String)> {
    let tests = for_tests();
    let product = files(folder).into_iter().filter(|file| !tests.contains(file));
    let read = |path: PathBuf| {
        let mut text = fs::read_to_string(&path).unwrap();
        text.truncate(tests_at(&text));
        (path, text)
    };
    product.map(read).collect()
}

/// The file of a module of a ring of tests: `root` and `looking::metrics`.
fn ring_module(ring: &str, module: &str) -> Option<String> {
    let below = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(ring);
    let path = below.join(module.replace("::", "/"));
    [path.with_extension("rs"), path.join("mod.rs")]
        .into_iter()
        .find_map(|file| fs::read_to_string(file).ok())
}

/// Whether a test is there that a page names by its ring and its name: `root guard::a_test`.
pub fn has_test(test: &str) -> bool {
    let parts = test.split_once(' ').and_then(|(ring, name)| Some((ring, name.rsplit_once("::")?)));
    let Some((ring, (module, function))) = parts else { return false };
    tests_of(ring, module).iter().any(|name| name == function)
}

/// The names of the tests of a ring's module; none if it is not there.
pub fn tests_of(ring: &str, module: &str) -> Vec<String> {
    let text = ring_module(ring, module).unwrap_or_default();
    let functions = text.split("#[test]").skip(1).filter_map(|rest| rest.split_once("fn "));
    functions.filter_map(|(_, rest)| Some(rest.split_once('(')?.0.to_owned())).collect()
}

/// The files that hold tests alone, by the `#[cfg(test)]` before their `mod`, and what is below them.
fn for_tests() -> BTreeSet<PathBuf> {
    const TEST: &str = "#[cfg(test)]\n";
    let all = files(&folder());
    let mut found = BTreeSet::new();
    for file in &all {
        let text = fs::read_to_string(file).unwrap();
        let is_folder = ["mod", "lib", "main"]
            .iter()
            .any(|stem| *file == file.with_file_name(format!("{stem}.rs")));
        let children =
            if is_folder { file.parent().unwrap().to_owned() } else { file.with_extension("") };
        for (at, _) in text.match_indices(TEST) {
            let mut rest = text[at + TEST.len()..].trim_start();
            let mut named = None;
            if let Some(after) = rest.strip_prefix("#[path = \"") {
                let (name, after) = after.split_once("\"]").unwrap();
                named = Some(file.with_file_name(name));
                rest = after.trim_start();
            }
            let Some((name, _)) = rest.strip_prefix("mod ").and_then(|rest| rest.split_once(';'))
            else {
                continue;
            };
            if !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let root = children.join(name);
            let is_its = |one: &&PathBuf| {
                **one == root.with_extension("rs")
                    || one.starts_with(&root)
                    || Some(*one) == named.as_ref()
            };
            found.extend(all.iter().filter(is_its).cloned());
        }
    }
    found
}

/// The code alone: comments and the insides of texts are spaces, each byte is where it was.
pub fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            (b'/', Some(b'/')) => line_end(bytes, at),
            (b'/', Some(b'*')) => comment_end(bytes, at),
            (b'"', _) => {
                let end = text_end(bytes, at + 1);
                blank(&mut out, at + 1, end - 1);
                at = end;
                continue;
            }
            (b'r', Some(b'"' | b'#')) if !is_name_at(bytes, at.wrapping_sub(1)) => {
                let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
                if bytes.get(at + 1 + hashes) != Some(&b'"') {
                    at += 1;
                    continue;
                }
                let close = format!("\"{}", "#".repeat(hashes));
                let from = at + 2 + hashes;
                let length = text[from..].find(&close).unwrap_or(text.len() - from);
                blank(&mut out, from, from + length);
                at = from + length + close.len();
                continue;
            }
            (b'\'', Some(_)) => {
                // A character, and no lifetime.
                let mut next = text[at + 1..].chars();
                let first = next.next().unwrap();
                let is_one = first == '\\' || next.next() == Some('\'');
                let from = at + 1 + first.len_utf8() + usize::from(first == '\\');
                let end = text[from..].find('\'').filter(|_| is_one).map(|n| from + n);
                match end {
                    Some(end) => {
                        blank(&mut out, at + 1, end);
                        at = end + 1;
                    }
                    None => at += 1,
                }
                continue;
            }
            _ => {
                at += 1;
                continue;
            }
        };
        blank(&mut out, at, end);
        at = end;
    }
    String::from_utf8(out).unwrap()
}

fn blank(out: &mut [u8], from: usize, to: usize) {
    for byte in &mut out[from..to.max(from)] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn is_name_at(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |n| at + n)
}

fn comment_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].windows(2).position(|two| two == b"*/").map_or(bytes.len(), |n| at + n + 2)
}

/// Behind the closing quote.
fn text_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Where a file's own tests begin. A module of tests in another file stands among the other modules, and
/// ends nothing.
fn tests_at(code: &str) -> usize {
    code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len())
}

/// The number of the line that a byte is in.
pub fn line_of(code: &str, at: usize) -> usize {
    1 + code[..at].matches('\n').count()
}
