//! No file of the program leads back to itself: by what it imports, or by the methods that it calls.

use crate::floors::MAY_NAME;
use crate::source::{code, folder, module_of, paths_after, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// Modules by name, and the code of each without its tests.
type Sources = BTreeMap<String, String>;

/// For each module those that it leads to.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Methods that types of the standard library or of another library have as well: where the receiver's
/// type is not written down, a call by such a name says nothing.
const OF_OTHERS: [&str; 12] = [
    "append", "bytes", "collect", "create", "exists", "fill", "get", "into", "is_root", "line",
    "message", "remove",
];

fn all_sources() -> Sources {
    let product = without_tests(&folder()).into_iter();
    product.map(|(file, text)| (module_of(&file).join("::"), code(&text))).collect()
}

/// The module paths, from the crate's root, that the code names in any way.
fn named_anyhow(module: &str, code: &str) -> Vec<String> {
    let module: Vec<_> = module.split("::").collect();
    let children: Vec<_> = code
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';')?.rsplit_once("mod "))
        .map(|(_, name)| format!("{name}::"))
        .collect();
    let mut found: Vec<String> = ["crate::", "incloud_disk::"]
        .iter()
        .flat_map(|prefix| code.match_indices(prefix))
        // Who may see it is no import.
        .filter(|(at, _)| !code[..*at].ends_with("(in "))
        .flat_map(|(at, prefix)| paths_after(&code[at + prefix.len()..]))
        .collect();
    for (at, _) in code.match_indices("super::") {
        if code[..at].ends_with("super::") {
            continue;
        }
        let steps = code[at..].split("super::").take_while(|between| between.is_empty()).count();
        let steps = steps.min(module.len());
        let above = module[..module.len() - steps].join("::");
        let rest = paths_after(&code[at + "super::".len() * steps..]);
        found.extend(rest.into_iter().map(|path| format!("{above}::{path}")));
    }
    for child in children.iter().map(String::as_str).chain(["self::"]) {
        for (at, _) in code.match_indices(child) {
            let before = code[..at].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || before == '_' || before == ':' {
                continue;
            }
            let from = if child == "self::" { at + child.len() } else { at };
            let above = module.join("::");
            found.extend(
                paths_after(&code[from..]).into_iter().map(|path| format!("{above}::{path}")),
            );
        }
    }
    found
}

fn imports(sources: &Sources) -> Arrows {
    let home_of = |path: &str| {
        let names: Vec<_> = path.split("::").filter(|name| !name.is_empty()).collect();
        let mut paths = (1..=names.len()).rev().map(|n| names[..n].join("::"));
        paths.find(|one| sources.contains_key(one))
    };
    let arrows = |(module, code): (&String, &String)| {
        let named = named_anyhow(module, code);
        let homes = named.iter().filter_map(|path| home_of(path)).filter(|home| home != module);
        (module.clone(), homes.collect())
    };
    sources.iter().map(arrows).collect()
}

/// An `impl` or a `trait`: whose, and where it stands.
struct Block {
    of: String,
    /// Whether its methods are called by their names' own right: those of an `impl` of a trait are
    /// called through the trait.
    defines: bool,
    from: usize,
    to: usize,
}

fn blocks(code: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let words = code.match_indices("impl").chain(code.match_indices("trait "));
    for (at, word) in words {
        let before = code[..at].trim_end();
        let is_item = before.ends_with(['}', ';', ']', '{']) || before.is_empty();
        let is_word =
            !code[..at].ends_with(is_name) && !code[at + word.len()..].starts_with(is_name);
        let is_item = is_item || before.ends_with("unsafe") || word == "trait ";
        if !is_item || word == "impl" && !is_word {
            continue;
        }
        let Some(open) = code[at..].find('{').map(|n| at + n) else { continue };
        let head = &code[at + word.len()..open];
        let head = head.split(" where").next().unwrap();
        let (defines, of) = match head.rsplit_once(" for ") {
            Some((_, of)) => (false, of),
            None => (true, head),
        };
        let of = if word == "trait " { of.split(':').next().unwrap() } else { of };
        found.push(Block { of: last_type(of), defines, from: open, to: end_of_block(code, open) });
    }
    found
}

/// The name of a type without its generics: `<T> Held<'_, T>` is `Held`.
fn last_type(text: &str) -> String {
    let mut depth = 0;
    let mut plain = String::new();
    for c in text.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain.split(|c| !is_name(c)).rfind(|name| !name.is_empty()).unwrap_or_default().to_owned()
}

fn end_of_block(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, c) in code[open..].char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 {
            return open + at;
        }
    }
    code.len()
}

/// The modules that define a method: of a type, and of any.
#[derive(Default)]
struct Methods {
    of_types: BTreeMap<(String, String), BTreeSet<String>>,
    of_any: BTreeMap<String, BTreeSet<String>>,
}

fn methods(sources: &Sources) -> Methods {
    let mut all = Methods::default();
    for (module, code) in sources {
        for block in blocks(code).iter().filter(|block| block.defines) {
            for name in methods_in(&code[block.from..block.to]) {
                let key = (block.of.clone(), name.to_owned());
                all.of_types.entry(key).or_default().insert(module.clone());
                all.of_any.entry(name.to_owned()).or_default().insert(module.clone());
            }
        }
    }
    all
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The functions in a block that have a receiver.
fn methods_in(block: &str) -> impl Iterator<Item = &str> {
    block.match_indices("fn ").filter_map(|(at, word)| {
        let rest = &block[at + word.len()..];
        let (name, rest) = rest.split_at(rest.find(|c| !is_name(c))?);
        let first = &rest[rest.find('(')? + 1..];
        let first = &first[..first.find([',', ')'])?];
        let is_own = !block[..at].ends_with(is_name) && !name.is_empty();
        (is_own && first.split(|c| !is_name(c)).any(|word| word == "self")).then_some(name)
    })
}

/// The types that names are given in a file: of fields, arguments and variables.
fn types_of_names(code: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (at, _) in code.match_indices(": ") {
        let name = &code[code[..at].rfind(|c| !is_name(c)).map_or(0, |n| n + 1)..at];
        let rest = &code[at + 2..];
        let given = &rest[..rest.find([',', ';', '=', '{', ')', '|', '\n']).unwrap_or(rest.len())];
        let types = given.split(|c| !is_name(c));
        let types = types.filter(|one| one.starts_with(|c: char| c.is_uppercase()));
        if !name.is_empty() {
            all.entry(name).or_default().extend(types);
        }
    }
    all.retain(|_, types| !types.is_empty());
    all
}

/// A call of a method: where, the receiver's name if it has one, and the method's.
fn calls_in(code: &str) -> Vec<(usize, Option<&str>, &str)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices('.') {
        let rest = &code[at + 1..];
        let (name, rest) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        let generics = rest.strip_prefix("::<").and_then(|rest| rest.split_once(">("));
        if name.is_empty() || !(rest.starts_with('(') || generics.is_some()) {
            continue;
        }
        let before = code[..at].trim_end();
        let receiver = &before[before.rfind(|c| !is_name(c)).map_or(0, |n| n + 1)..];
        found.push((at, Some(receiver).filter(|one| !one.is_empty()), name));
    }
    found
}

/// Where calls of methods lead, as far as a text tells it: by the type of `self`, by the type that is
/// written beside the receiver's name, and else by a name that is a method's of one file alone.
fn calls_of(sources: &Sources) -> BTreeSet<(String, String, String)> {
    let methods = methods(sources);
    let mut all = BTreeSet::new();
    for (module, code) in sources {
        let (blocks, types) = (blocks(code), types_of_names(code));
        for (at, receiver, name) in calls_in(code) {
            let of = |one: &str| methods.of_types.get(&(one.to_owned(), name.to_owned()));
            let own = blocks.iter().rfind(|block| (block.from..block.to).contains(&at));
            let known = match receiver {
                Some("self") => own.and_then(|block| of(&block.of)),
                _ => None,
            };
            let written = receiver.and_then(|receiver| types.get(receiver));
            let by_name = || {
                let homes = methods.of_any.get(name).filter(|homes| homes.len() == 1);
                homes.filter(|_| !OF_OTHERS.contains(&name))
            };
            let homes: BTreeSet<_> = match (known, written) {
                (Some(homes), _) => homes.clone(),
                (None, Some(types)) => {
                    types.iter().filter_map(|one| of(one)).flatten().cloned().collect()
                }
                (None, None) => by_name().cloned().unwrap_or_default(),
            };
            // A type of this file's own may have the name of another one.
            let is_own = homes.contains(module);
            let homes = homes.into_iter().filter(|_| !is_own);
            all.extend(homes.map(|home| (module.clone(), name.to_owned(), home)));
        }
    }
    all
}

fn calls(sources: &Sources) -> Arrows {
    let mut all = Arrows::new();
    for (module, _, home) in calls_of(sources) {
        all.entry(module).or_default().insert(home);
    }
    all
}

fn both(imports: &Arrows, calls: &Arrows) -> Arrows {
    let mut all = imports.clone();
    for (module, homes) in calls {
        all.entry(module.clone()).or_default().extend(homes.iter().cloned());
    }
    all
}

/// A shortest way from a module to another one, or back to itself.
fn way(arrows: &Arrows, begin: &str, end: &str) -> Option<Vec<String>> {
    let mut from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut next = std::collections::VecDeque::from([begin]);
    while let Some(one) = next.pop_front() {
        for other in arrows.get(one).into_iter().flatten() {
            if other == end {
                let mut way = vec![end.to_owned(), one.to_owned()];
                while way.last().unwrap() != begin {
                    way.push(from[way.last().unwrap().as_str()].to_owned());
                }
                way.reverse();
                return Some(way);
            }
            if !from.contains_key(other.as_str()) {
                from.insert(other, one);
                next.push_back(other);
            }
        }
    }
    None
}

fn circles(arrows: &Arrows) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    for module in arrows.keys() {
        let Some(mut way) = way(arrows, module, module) else { continue };
        way.pop();
        // The same one from each of its modules is one.
        let first = (0..way.len()).min_by_key(|n| &way[*n]).unwrap();
        way.rotate_left(first);
        found.insert(way);
    }
    found
}

#[test]
fn no_file_leads_back_to_itself() {
    let sources = all_sources();
    let (imports, calls) = (imports(&sources), calls(&sources));
    let found = circles(&both(&imports, &calls));
    let found: Vec<_> = found.iter().map(|way| way.join(" -> ")).collect();
    assert!(found.is_empty(), "{} circles:\n{}", found.len(), found.join("\n"));
    assert!(
        imports["driver::mount::stage"].contains("driver::lookup::find_disk"),
        "imports are read"
    );
    assert!(way(&imports, "driver::lookup::find_disk", "driver::mount::stage").is_none());
    let read: usize = calls.values().map(BTreeSet::len).sum();
    assert!(read > 300, "only {read} arrows of calls are read");
}

/// The rooms that a room may name, and those that these may name: a value of one of them may be handed
/// up, and its methods called.
fn below(room: &str) -> BTreeSet<&'static str> {
    let (_, named) = MAY_NAME.iter().find(|(name, _)| *name == room).unwrap();
    named.iter().copied().chain(named.iter().flat_map(|one| below(one))).collect()
}

#[test]
fn calls_point_down() {
    let mut wrong = Vec::new();
    for (module, name, home) in calls_of(&all_sources()) {
        let room = module.split("::").next().unwrap();
        let other = home.split("::").next().unwrap();
        if other != room && !below(room).contains(other) {
            wrong.push(format!("{module} calls `{name}` of {home}"));
        }
    }
    assert!(wrong.is_empty(), "{} calls:\n{}", wrong.len(), wrong.join("\n"));
}

/// The reader sees a circle that is made by calls alone: one type, in two files.
#[test]
fn a_circle_of_calls_is_found() {
    let house = |parts: &[(&str, &str)]| -> Sources {
        parts.iter().map(|(module, code)| ((*module).to_owned(), (*code).to_owned())).collect()
    };
    let by_self = house(&[
        ("house", "mod door;\nmod room;\npub struct House;"),
        ("house::door", "use super::House;\nimpl House {\n fn open(&self) { self.enter() }\n}"),
        ("house::room", "use super::House;\nimpl House {\n fn enter(&self) { self.open() }\n}"),
    ]);
    let by_name = house(&[
        ("keys", "pub struct Keys;\nimpl Keys {\n fn turn(&self, f: F) { f().unlock() }\n}"),
        ("lock", "pub struct Lock;\nimpl Lock {\n fn unlock(&mut self) { g().turn(h) }\n}"),
    ]);
    let by_written_type = house(&[
        (
            "a",
            "pub trait Bell {\n fn get<T>(&self);\n}\nstruct A { b: Box<B> }\nimpl A {\n fn f(&self) { self.b.get() }\n}",
        ),
        ("b", "struct B;\nimpl B {\n fn get(&self, bell: &dyn Bell) {\n bell.get::<u8>() }\n}"),
    ]);
    for sources in [by_self, by_name, by_written_type] {
        assert_eq!(circles(&imports(&sources)), BTreeSet::new(), "by imports there is none");
        let found = circles(&both(&imports(&sources), &calls(&sources)));
        assert_eq!(found.len(), 1, "{found:?}");
    }
    let through_a_trait = house(&[
        ("port", "pub trait Bell {\n fn ring(&self);\n}"),
        (
            "bell",
            "use crate::port::Bell;\nimpl Bell for Brass {\n fn ring(&self) { self.swing() }\n}\nimpl Brass {\n fn swing(&self) {}\n}",
        ),
        ("hand", "use crate::port::Bell;\nfn f(bell: &dyn Bell) { bell.ring() }"),
    ]);
    let arrows = calls(&through_a_trait);
    assert_eq!(
        arrows["hand"],
        BTreeSet::from(["port".to_owned()]),
        "an adapter is called through its port"
    );
    assert_eq!(circles(&both(&imports(&through_a_trait), &arrows)), BTreeSet::new());
}
