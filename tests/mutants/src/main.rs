//! All mutants of some rooms in one program, and which tests see them: `./install.sh test mutants`.
//!
//! cargo-mutants lists them, and would build the driver anew for each. Here each is a branch in one copy of the source,
//! which is taken by the number in a variable. A run without any says which mutants each test reaches; a mutant is then
//! played against those tests alone, unit tests first.

mod judged;
mod listed;
mod play;
mod rooms;
mod sandbox;
mod schemata;
mod stop;
mod tree;

use listed::Mutant;
use play::{Order, Outcome, Player, Program, Reach};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tree::{Left, Tree};

/// What the shards are told.
#[derive(Debug, Serialize, Deserialize)]
struct Plan {
    tree: PathBuf,
    mutants: Vec<Mutant>,
    left: BTreeMap<u32, Left>,
    programs: Vec<Program>,
    /// Seconds since 1970.
    until: Option<u64>,
    seconds_each: u64,
    /// What the files begin with that are played; all if there is none.
    only: Vec<String>,
    sources: HashMap<String, String>,
    /// What rings caught in earlier runs, wherever.
    caught_before: BTreeSet<String>,
    /// What has a written reason.
    explained: BTreeSet<String>,
}

impl Plan {
    fn is_over(&self, work: &Path) -> bool {
        stop::is_asked_for(work) || self.until.is_some_and(|until| seconds() > until)
    }

    fn plays(&self, file: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|begin| file.starts_with(begin.as_str()))
    }
}

/// What became of a mutant in a stage.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Played {
    key: String,
    /// Of the file that it is in.
    source: String,
    /// Of the programs that it was played against.
    version: String,
    in_rings: bool,
    outcome: Outcome,
}

struct Wishes {
    from: PathBuf,
    work: PathBuf,
    lister: PathBuf,
    rings: bool,
    diff: Option<PathBuf>,
    minutes: Option<u64>,
    seconds_each: u64,
    files: Vec<String>,
}

/// As many plays at once; most tests of a ring wait.
const SHARDS: usize = 2;
const SHARDS_OF_RINGS: usize = 4;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.first().map(String::as_str) {
        Some("shard") => shard(&words[1..]).map(|()| true),
        _ => wishes(&words).and_then(|wishes| all(&wishes)),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::from(2)
        }
    }
}

fn wishes(words: &[String]) -> Result<Wishes, String> {
    let mut words = words.iter();
    let mut next = |what: &str| words.next().cloned().ok_or(format!("{what} is missing"));
    let (from, work, lister) = (
        next("the tree")?.into(),
        next("the folder for results")?.into(),
        next("cargo-mutants")?.into(),
    );
    let mut wishes = Wishes {
        from,
        work,
        lister,
        rings: true,
        diff: None,
        minutes: None,
        seconds_each: 90,
        files: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().ok_or(format!("{word} needs a value"));
        let number = |text: String| {
            text.parse::<u64>().map_err(|_| format!("{word} takes a number: {text}"))
        };
        match word.as_str() {
            "--ring" => {
                wishes.rings = match value()?.as_str() {
                    "unit" => false,
                    "root" => true,
                    other => return Err(format!("--ring is unit or root: {other}")),
                }
            }
            "--diff" => wishes.diff = Some(value()?.into()),
            "--minutes" => wishes.minutes = Some(number(value()?)?),
            "--seconds-each" => wishes.seconds_each = number(value()?)?,
            other if other.starts_with('-') => {
                return Err(format!("test mutants does not take {other}"));
            }
            file => wishes.files.push(file.to_owned()),
        }
    }
    Ok(wishes)
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn is_root() -> bool {
    // SAFETY: it reads a number.
    #[allow(unsafe_code)]
    unsafe {
        libc::geteuid() == 0
    }
}

/// FNV-1a: a name for what may not have changed.
fn hash(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{sum:016x}")
}

/// A file up to its unit tests: with one more of these its mutants are the same.
fn without_tests(text: &[u8]) -> &[u8] {
    const TESTS: &[u8] = b"\n#[cfg(test)]\nmod tests";
    let end = text.windows(TESTS.len()).position(|part| part == TESTS);
    end.map_or(text, |end| &text[..end])
}

fn all(wishes: &Wishes) -> Result<bool, String> {
    let begun = seconds();
    fs::create_dir_all(wishes.work.join("results")).map_err(|error| error.to_string())?;
    // All are woven whatever is played, so that the program stays the same.
    let mut files = Vec::new();
    for file in rooms::ROOMS.iter().flat_map(|room| room.files) {
        files.push(if file.ends_with('/') { format!("{file}**/*.rs") } else { (*file).to_owned() });
    }
    if let Some(file) = wishes.files.iter().find(|file| !rooms::may_have(file)) {
        return Err(format!("{file} is in no room of tests/mutants/src/rooms.rs"));
    }
    let mutants = listed::list(&wishes.lister, &wishes.from, &files, wishes.diff.as_deref())?;
    println!("{} mutants", mutants.len());
    if mutants.is_empty() {
        // A change may have none; the rooms have thousands.
        return wishes.diff.as_ref().map(|_| true).ok_or_else(|| "none is listed".to_owned());
    }
    let tree = Tree {
        from: wishes.from.clone(),
        at: wishes.work.join("tree"),
        build: wishes.work.join("build"),
    };
    let mut sources = HashMap::new();
    for mutant in &mutants {
        let read = || fs::read(wishes.from.join(&mutant.file)).unwrap_or_default();
        sources.entry(mutant.file.clone()).or_insert_with(|| hash(without_tests(&read())));
    }
    let left = weave(&tree, &wishes.work.join("results/left.json"), &mutants, &sources)?;
    let unviable = left.values().filter(|one| **one == Left::Unviable).count();
    println!(
        "{unviable} of them are no program; {} have no branch; after {} s",
        left.len() - unviable,
        seconds() - begun
    );
    let rings: &[&str] =
        if wishes.rings { &["lib", "root", "contract", "cloud"] } else { &["lib"] };
    let paths = tree.programs(rings)?;
    println!("built after {} s", seconds() - begun);
    let driver = fs::read(tree.build.join("debug/disk")).unwrap_or_default();
    let mut programs = Vec::new();
    for (ring, path) in paths {
        let mut bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut program = Program { ring, path, version: String::new() };
        if !program.is_unit() {
            bytes.extend(&driver);
        }
        program.version = hash(&bytes);
        programs.push(program);
    }
    let until = wishes.minutes.map(|minutes| begun + minutes * 60);
    let plan = Plan {
        tree: tree.at,
        mutants,
        left,
        programs,
        until,
        seconds_each: wishes.seconds_each,
        only: wishes.files.clone(),
        sources,
        caught_before: judged::keys(&wishes.from, judged::BY_RINGS),
        explained: judged::reasons(&wishes.from).into_keys().collect(),
    };
    let text = serde_json::to_vec(&plan).map_err(|error| error.to_string())?;
    fs::write(wishes.work.join("plan.json"), text).map_err(|error| error.to_string())?;
    stop::await_signals(&wishes.work);
    let loops = sandbox::loops();
    let played = play_phases(wishes, begun);
    sandbox::end_loops(&loops);
    played?;
    if stop::is_asked_for(&wishes.work) {
        println!("ended by a signal; so far:");
    }
    tell(wishes, &plan)
}

fn play_phases(wishes: &Wishes, begun: u64) -> Result<(), String> {
    for phase in ["reach-unit", "play-unit", "reach-rings", "play-rings"] {
        if phase.ends_with("rings") && !wishes.rings {
            continue;
        }
        run_shards(&wishes.work, phase)?;
        println!("{phase}: done after {} s", seconds() - begun);
    }
    Ok(())
}

/// Weaves the mutants; what was no program is none as long as its file is the same.
fn weave(
    tree: &Tree,
    kept: &Path,
    mutants: &[Mutant],
    sources: &HashMap<String, String>,
) -> Result<BTreeMap<u32, Left>, String> {
    let text = fs::read(kept).unwrap_or_default();
    let mut old: BTreeMap<String, (String, Left)> =
        serde_json::from_slice(&text).unwrap_or_default();
    let mut left = BTreeMap::new();
    for mutant in mutants {
        if let Some((source, why)) = old.get(&mutant.key)
            && sources.get(&mutant.file) == Some(source)
        {
            left.insert(mutant.number, why.clone());
        }
    }
    tree.weave(mutants, &mut left)?;
    for mutant in mutants {
        let source = sources.get(&mutant.file).cloned().unwrap_or_default();
        match left.get(&mutant.number) {
            Some(why) => old.insert(mutant.key.clone(), (source, why.clone())),
            None => old.remove(&mutant.key),
        };
    }
    let text = serde_json::to_vec(&old).map_err(|error| error.to_string())?;
    fs::write(kept, text).map_err(|error| error.to_string())?;
    Ok(left)
}

fn shards(phase: &str) -> usize {
    if phase.ends_with("rings") { SHARDS_OF_RINGS } else { SHARDS }
}

fn run_shards(work: &Path, phase: &str) -> Result<(), String> {
    let own =
        std::env::current_exe().map_err(|error| error.to_string())?.to_string_lossy().into_owned();
    let mut children = Vec::new();
    for place in 0..shards(phase) {
        let name = format!("mutants-{}-{place}", std::process::id());
        let words = [
            own.clone(),
            "shard".into(),
            work.to_string_lossy().into_owned(),
            phase.into(),
            place.to_string(),
            name.clone(),
        ];
        let mut command =
            if is_root() { sandbox::wrapped(&words, &[]) } else { Command::new(&words[0]) };
        if !is_root() {
            command.args(&words[1..]);
        }
        command.env(sandbox::SHARD, &name);
        stop::keep_from(&mut command);
        children.push((command.spawn().map_err(|error| format!("unshare: {error}"))?, name));
    }
    let mut outcome = Ok(());
    for (mut child, name) in children {
        let status = child.wait().map_err(|error| error.to_string())?;
        sandbox::leave(&name);
        if !status.success() {
            outcome = Err(format!("a part of {phase} broke off: {status}"));
        }
    }
    outcome
}

fn version(plan: &Plan, in_rings: bool) -> String {
    let of: Vec<&str> = plan
        .programs
        .iter()
        .filter(|one| one.is_unit() != in_rings)
        .map(|one| one.version.as_str())
        .collect();
    of.join("-")
}

fn is_caught(outcome: Option<&Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Caught { .. }))
}

/// What is known of each mutant from this run or earlier ones.
fn known(work: &Path, plan: &Plan, in_rings: bool) -> HashMap<String, Outcome> {
    let version = version(plan, in_rings);
    let mut known = HashMap::new();
    for one in play::lines::<Played>(&work.join("results"), "results") {
        let file = one.key.split(": ").next().unwrap_or_default();
        let is_same = plan.sources.get(file).is_some_and(|source| *source == one.source);
        // What was caught is caught; what survived is played against other tests again.
        let counts = is_same && one.in_rings == in_rings;
        if counts && (is_caught(Some(&one.outcome)) || one.version == version) {
            let last = known.entry(one.key).or_insert_with(|| one.outcome.clone());
            if !is_caught(Some(last)) {
                *last = one.outcome;
            }
        }
    }
    known
}

fn reached(work: &Path, plan: &Plan, in_rings: bool) -> Vec<Reach> {
    let of = plan.programs.iter().filter(|one| one.is_unit() != in_rings);
    of.flat_map(|one| {
        play::lines::<Reach>(&work.join("results"), &format!("reach-{}-{}", one.ring, one.version))
    })
    .collect()
}

fn shard(words: &[String]) -> Result<(), String> {
    let [work, phase, place, name] = words else { return Err("shard takes four words".into()) };
    let work = Path::new(work);
    let place: usize = place.parse().map_err(|_| "the shard's place")?;
    let text = fs::read(work.join("plan.json")).map_err(|error| error.to_string())?;
    let plan: Plan = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let scratch = work.join(format!("scratch-{place}"));
    fs::create_dir_all(&scratch).map_err(|error| error.to_string())?;
    let in_namespaces = is_root();
    if in_namespaces {
        sandbox::enter(&scratch, name)?;
    }
    let player = Player { tree: plan.tree.clone(), scratch, in_namespaces, work: work.to_owned() };
    let in_rings = phase.ends_with("rings");
    let programs: Vec<Program> =
        plan.programs.iter().filter(|one| one.is_unit() != in_rings).cloned().collect();
    if phase.starts_with("reach") {
        reach(work, &plan, &player, &programs, place, in_rings)
    } else {
        play_all(work, &plan, &player, &programs, place, in_rings)
    }
}

fn reach(
    work: &Path,
    plan: &Plan,
    player: &Player,
    programs: &[Program],
    place: usize,
    in_rings: bool,
) -> Result<(), String> {
    let have: BTreeSet<(String, String)> =
        reached(work, plan, in_rings).into_iter().map(|one| (one.ring, one.test)).collect();
    let rooms: BTreeSet<&str> = plan
        .mutants
        .iter()
        .filter(|one| plan.plays(&one.file))
        .filter_map(|one| rooms::room_of(&one.file))
        .map(|room| room.name)
        .collect();
    let count = u32::try_from(plan.mutants.len()).unwrap_or(u32::MAX);
    let shards = shards(if in_rings { "rings" } else { "unit" });
    for program in programs {
        let begins: Vec<&str> = rooms::ROOMS
            .iter()
            .filter(|room| rooms.contains(room.name))
            .flat_map(|room| room.tests)
            .filter(|(ring, _)| *ring == program.ring)
            .flat_map(|(_, begins)| begins.iter().copied())
            .collect();
        let tests = play::tests_of(program)?;
        let tests = tests
            .into_iter()
            .filter(|test| !in_rings || begins.iter().any(|begin| test.starts_with(begin)));
        // Divided before what is there already is passed over: the other shards write meanwhile.
        let tests = tests
            .skip(place)
            .step_by(shards)
            .filter(|test| !have.contains(&(program.ring.clone(), test.clone())));
        let file = work
            .join("results")
            .join(format!("reach-{}-{}-{place}.jsonl", program.ring, program.version));
        for test in tests {
            if plan.is_over(work) {
                println!("time is over: not all tests were looked at");
                return Ok(());
            }
            let reach = player.reach(program, &test, count)?;
            if stop::is_asked_for(work) {
                return Ok(());
            }
            if !reach.passed {
                println!("{} {test} fails without a mutant: it is left out", program.ring);
            }
            play::append(&file, &reach)?;
        }
    }
    Ok(())
}

fn play_all(
    work: &Path,
    plan: &Plan,
    player: &Player,
    programs: &[Program],
    place: usize,
    in_rings: bool,
) -> Result<(), String> {
    let reach: Vec<Reach> =
        reached(work, plan, in_rings).into_iter().filter(|one| one.passed).collect();
    let mut reaching: BTreeMap<u32, Vec<&Reach>> = BTreeMap::new();
    for one in &reach {
        for number in &one.mutants {
            reaching.entry(*number).or_default().push(one);
        }
    }
    let (done, unfinished): (HashMap<_, _>, HashMap<_, _>) =
        known(work, plan, in_rings).into_iter().partition(|(_, outcome)| outcome.is_final());
    let by_units = if in_rings { known(work, plan, false) } else { HashMap::new() };
    let version = version(plan, in_rings);
    let file = work.join("results").join(format!("results-{place}.jsonl"));
    let mut order = Order::of(&plan.mutants);
    for one in play::lines::<Played>(&work.join("results"), "results") {
        if let Outcome::Caught { test, .. } = &one.outcome
            && one.in_rings == in_rings
        {
            let mut parts = one.key.split(": ");
            let (file, function) =
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            order.caught(file, function, test);
        }
    }
    // Divided before what was played is passed over: the other shards write meanwhile.
    let shards = shards(if in_rings { "rings" } else { "unit" });
    let todo = plan
        .mutants
        .iter()
        .filter(|one| !plan.left.contains_key(&one.number) && !done.contains_key(&one.key));
    let todo: Vec<&Mutant> = todo.filter(|one| !is_caught(by_units.get(&one.key))).collect();
    let todo: Vec<&Mutant> = todo.into_iter().filter(|one| plan.plays(&one.file)).collect();
    let mut mine: Vec<&Mutant> =
        todo.into_iter().filter(|one| one.number as usize % shards == place).collect();
    // On a new machine too what was caught once is played again late, as is what had no time for all its tests; and last
    // what has its reason.
    mine.sort_by_key(|one| {
        let (key, is_known) = (&one.key, plan.caught_before.contains(&one.key));
        (plan.explained.contains(key), unfinished.contains_key(key), is_known)
    });
    for (nth, mutant) in mine.iter().enumerate() {
        if plan.is_over(work) {
            return Ok(());
        }
        let outcome = player.play(
            programs,
            mutant,
            &reaching,
            &mut order,
            Duration::from_secs(plan.seconds_each),
        )?;
        // It was broken off: that says nothing of it.
        if stop::is_asked_for(work) {
            return Ok(());
        }
        if let Outcome::Survived { tests, of } = &outcome {
            println!("{}/{} survived {tests} of {of}: {}", nth + 1, mine.len(), mutant.key);
        }
        let source = plan.sources.get(&mutant.file).cloned().unwrap_or_default();
        play::append(
            &file,
            &Played {
                key: mutant.key.clone(),
                source,
                version: version.clone(),
                in_rings,
                outcome,
            },
        )?;
    }
    Ok(())
}

/// The table, and what has no reason. False if a mutant survived without one.
fn tell(wishes: &Wishes, plan: &Plan) -> Result<bool, String> {
    let (units, rings) = (known(&wishes.work, plan, false), known(&wishes.work, plan, true));
    let reasons = judged::reasons(&wishes.from);
    let mut by_rings = judged::keys(&wishes.from, judged::BY_RINGS);
    let mut not_judged = judged::keys(&wishes.from, judged::NOT_JUDGED);
    let mut rows: BTreeMap<&str, [usize; 8]> = BTreeMap::new();
    let (mut new, mut unplayed) = (Vec::new(), Vec::new());
    for mutant in plan.mutants.iter().filter(|one| plan.plays(&one.file)) {
        let room = rooms::room_of(&mutant.file).map_or("other", |room| room.name);
        let row = rows.entry(room).or_default();
        row[0] += 1;
        match plan.left.get(&mutant.number) {
            Some(Left::Unviable) => {
                row[1] += 1;
                by_rings.remove(&mutant.key);
                not_judged.remove(&mutant.key);
                continue;
            }
            Some(Left::NoBranch(_)) if !reasons.contains_key(&mutant.key) => {
                row[2] += 1;
                continue;
            }
            _ => {}
        }
        if is_caught(units.get(&mutant.key)) {
            row[3] += 1;
            by_rings.remove(&mutant.key);
            not_judged.remove(&mutant.key);
        } else if is_caught(rings.get(&mutant.key))
            || (!wishes.rings && by_rings.contains(&mutant.key))
        {
            row[4] += 1;
            by_rings.insert(mutant.key.clone());
            not_judged.remove(&mutant.key);
        } else if reasons.contains_key(&mutant.key) {
            row[5] += 1;
            not_judged.remove(&mutant.key);
        } else {
            let last = if wishes.rings { &rings } else { &units };
            match last.get(&mutant.key) {
                Some(_) => {
                    row[6] += 1;
                    if !not_judged.contains(&mutant.key) {
                        new.push(mutant);
                    }
                }
                None => {
                    row[7] += 1;
                    unplayed.push(mutant);
                }
            }
        }
    }
    println!(
        "\n| room | mutants | no program | no branch | caught by unit tests | by rings | survive with a reason | not judged yet | not played |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (room, numbers) in &rows {
        println!("| {room} | {} |", numbers.map(|number| number.to_string()).join(" | "));
    }
    for (number, left) in &plan.left {
        if let (Left::NoBranch(why), Some(mutant)) = (left, plan.mutants.get(*number as usize - 1))
        {
            println!("no branch: {}: {why}", mutant.key);
        }
    }
    let here: BTreeSet<&str> = plan.mutants.iter().map(|one| one.key.as_str()).collect();
    if wishes.diff.is_none() && wishes.files.is_empty() {
        for key in reasons.keys().filter(|key| !here.contains(key.as_str())) {
            println!("a reason for what is no mutant: {key}");
        }
        by_rings.retain(|key| here.contains(key.as_str()));
        not_judged.retain(|key| here.contains(key.as_str()));
    }
    if !new.is_empty() {
        println!("\nnew survivors; each needs a test, or its row in {}:", judged::PAGE);
        for mutant in &new {
            println!("{}", judged::row(&mutant.file, &mutant.function, &mutant.key));
        }
    }
    for mutant in &unplayed {
        println!("not played: {}", mutant.key);
    }
    if std::env::var_os("KEEP").is_some_and(|keep| keep == "1") {
        not_judged.extend(new.iter().map(|one| one.key.clone()));
        judged::keep(&wishes.from, judged::BY_RINGS, &by_rings)?;
        judged::keep(&wishes.from, judged::NOT_JUDGED, &not_judged)?;
        return Ok(true);
    }
    Ok(new.is_empty())
}
