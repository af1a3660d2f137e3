//! Runs tests with one mutant or none. What reaches which mutant is seen in a run without any; then a mutant is played
//! against what reaches it alone.

use crate::listed::Mutant;
use crate::{rooms, sandbox, stop};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A program of tests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Program {
    pub ring: String,
    pub path: PathBuf,
    /// Of what is run with it too.
    pub version: String,
}

impl Program {
    /// Whether it has the unit tests of a crate.
    pub fn is_unit(&self) -> bool {
        self.ring.starts_with("lib ")
    }
}

/// A test, as it was without a mutant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reach {
    pub ring: String,
    pub test: String,
    pub passed: bool,
    pub milliseconds: u64,
    pub mutants: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// By this ring's test.
    Caught {
        ring: String,
        test: String,
    },
    Survived {
        tests: usize,
        of: usize,
    },
}

impl Outcome {
    /// Whether there is nothing left to play.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Caught { .. } => true,
            Self::Survived { tests, of } => tests >= of,
        }
    }
}

#[derive(Debug)]
pub struct Player {
    pub tree: PathBuf,
    pub scratch: PathBuf,
    pub in_namespaces: bool,
    /// Where a person's wish to end the run is left.
    pub work: PathBuf,
}

enum Ended {
    Passed,
    /// The tests that failed; none if the program itself died.
    Failed(Vec<String>),
    Late,
}

/// So many tests of a ring for one mutant at once.
const AT_ONCE: usize = 3;

const VARIABLE: &str = "INCLOUD_DISK_MUTANT";
const REACHED: &str = "INCLOUD_DISK_MUTANT_REACHED";
const PROCESSES: &str = "INCLOUD_DISK_MUTANT_PROCESSES";

pub fn tests_of(program: &Program) -> Result<Vec<String>, String> {
    let output = Command::new(&program.path).args(["--list", "--format", "terse"]).output();
    let output = output.map_err(|error| format!("{}: {error}", program.path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

impl Player {
    fn command(&self, program: &Program) -> Command {
        let mut command = Command::new(&program.path);
        command
            .current_dir(&self.tree)
            .env("CARGO_MANIFEST_DIR", &self.tree)
            .env("TMPDIR", &self.scratch);
        command.env_remove(VARIABLE).env_remove(REACHED).stdin(Stdio::null());
        if self.in_namespaces
            && let Ok(link) = fs::read_link("/proc/self/ns/pid")
            && let Some(number) =
                link.to_string_lossy().strip_prefix("pid:[").and_then(|rest| rest.strip_suffix(']'))
        {
            command.env(PROCESSES, number);
        }
        command
    }

    /// Runs these tests of a program.
    fn run(&self, mut command: Command, tests: &[&str], limit: Duration) -> Result<Ended, String> {
        let told = self.scratch.join("told");
        let file = File::create(&told).map_err(|error| format!("{}: {error}", told.display()))?;
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        command.arg("--exact").args(tests).stdout(file).stderr(errors);
        let mut child = sandbox::spawn(command).map_err(|error| format!("run tests: {error}"))?;
        let end = Instant::now() + limit;
        let mut pause = Duration::from_millis(1);
        let status: Option<ExitStatus> = loop {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                break Some(status);
            }
            if Instant::now() > end || stop::is_asked_for(&self.work) {
                break None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        sandbox::end(&mut child);
        if self.in_namespaces {
            sandbox::clean(&self.scratch);
        }
        let Some(status) = status else { return Ok(Ended::Late) };
        let text = String::from_utf8_lossy(&fs::read(&told).unwrap_or_default()).into_owned();
        let failed: Vec<String> = text
            .lines()
            .filter_map(|line| {
                Some(line.split_once("test ")?.1.strip_suffix(" ... FAILED")?.to_owned())
            })
            .filter(|name| tests.contains(&name.as_str()))
            .collect();
        // With one thread what a test prints stands between.
        let listed = || {
            let after = text.rsplit_once("\nfailures:\n").map_or("", |(_, after)| after);
            after
                .lines()
                .map(|line| line.trim().to_owned())
                .filter(|name| tests.contains(&name.as_str()))
                .collect()
        };
        Ok(if status.success() {
            Ended::Passed
        } else {
            Ended::Failed(if failed.is_empty() { listed() } else { failed })
        })
    }

    /// One test without a mutant, and which mutants it reaches.
    pub fn reach(&self, program: &Program, test: &str, mutants: u32) -> Result<Reach, String> {
        let path = self.scratch.join("reached");
        fs::write(&path, vec![0_u8; mutants as usize + 1]).map_err(|error| error.to_string())?;
        // Also for what a test starts as another user.
        sandbox::open_to_all(&path);
        let mut command = self.command(program);
        command.env(REACHED, &path);
        let begin = Instant::now();
        let ended = self.run(command, &[test], Duration::from_mins(5))?;
        let took = begin.elapsed();
        let bytes = fs::read(&path).unwrap_or_default();
        let reached =
            (1..=mutants).filter(|number| bytes.get(*number as usize) == Some(&1)).collect();
        Ok(Reach {
            ring: program.ring.clone(),
            test: test.to_owned(),
            passed: matches!(ended, Ended::Passed),
            milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            mutants: reached,
        })
    }

    /// Plays a mutant against tests of one program, in this order, so many at once.
    fn play_program(
        &self,
        program: &Program,
        mutant: u32,
        tests: &[&Reach],
        at_once: &[usize],
        order: &mut Order,
        (file, function): (&str, &str),
    ) -> Result<(usize, Option<String>), String> {
        let mut played = 0;
        let mut step = 0;
        while played < tests.len() {
            let some = at_once.get(step).or(at_once.last()).copied().unwrap_or(1);
            step += 1;
            let chunk = &tests[played..tests.len().min(played + some)];
            let names: Vec<&str> = chunk.iter().map(|one| one.test.as_str()).collect();
            let took = chunk.iter().map(|one| one.milliseconds).sum::<u64>();
            let limit = Duration::from_secs(30) + Duration::from_millis(took * 5);
            let run = |names: &[&str]| {
                let mut command = self.command(program);
                command.env(VARIABLE, mutant.to_string());
                if !program.is_unit() {
                    command.args(["--test-threads", "3"]);
                }
                self.run(command, names, limit)
            };
            match run(&names)? {
                Ended::Passed => {}
                Ended::Late if program.is_unit() => {
                    return Ok((played, Some(format!("{} (no end)", names.join(" ")))));
                }
                Ended::Failed(failed) if program.is_unit() => {
                    let test = failed
                        .first()
                        .cloned()
                        .unwrap_or_else(|| format!("{} (died)", names.join(" ")));
                    order.caught(file, function, &test);
                    return Ok((played, Some(test)));
                }
                ended @ (Ended::Failed(_) | Ended::Late) => {
                    // On a crowded machine a test fails that waits too long: what is caught is caught again, alone.
                    let failed = match ended {
                        Ended::Failed(failed) if !failed.is_empty() => failed,
                        _ => names.iter().map(|name| (*name).to_owned()).collect(),
                    };
                    for test in failed.iter().take(3) {
                        if !matches!(run(&[test.as_str()])?, Ended::Passed) {
                            order.caught(file, function, test);
                            return Ok((played, Some(test.clone())));
                        }
                    }
                }
            }
            played += chunk.len();
        }
        Ok((played, None))
    }

    /// Plays a mutant against all tests that reach it, for so long at most.
    pub fn play(
        &self,
        programs: &[Program],
        mutant: &Mutant,
        reaching: &BTreeMap<u32, Vec<&Reach>>,
        order: &mut Order,
        at_most: Duration,
    ) -> Result<Outcome, String> {
        let empty = Vec::new();
        let all = reaching.get(&mutant.number).unwrap_or(&empty);
        let begin = Instant::now();
        let mut played = 0;
        let mut rings = Vec::new();
        for program in programs {
            let mut tests: Vec<&Reach> =
                all.iter().copied().filter(|one| one.ring == program.ring).collect();
            order.sort(&mut tests, &mutant.file, &mutant.function);
            if program.is_unit() {
                let (some, caught) = self.play_program(
                    program,
                    mutant.number,
                    &tests,
                    &[6, 24, 100_000],
                    order,
                    (&mutant.file, &mutant.function),
                )?;
                played += some;
                if let Some(test) = caught {
                    return Ok(Outcome::Caught { ring: program.ring.clone(), test });
                }
            } else {
                rings.push((program, tests));
            }
        }
        // By turns: what is about the cloud is not behind all that mounts.
        let most = rings.iter().map(|(_, tests)| tests.len()).max().unwrap_or(0).div_ceil(AT_ONCE);
        for turn in 0..=most {
            for (program, tests) in &rings {
                // The first one is mostly right: alone it costs a third.
                let (first, rest) = tests.split_at(tests.len().min(1));
                let mut chunks = std::iter::once(first).chain(rest.chunks(AT_ONCE));
                let Some(chunk) = chunks.nth(turn) else { continue };
                if begin.elapsed() > at_most {
                    return Ok(Outcome::Survived { tests: played, of: all.len() });
                }
                let (some, caught) = self.play_program(
                    program,
                    mutant.number,
                    chunk,
                    &[AT_ONCE],
                    order,
                    (&mutant.file, &mutant.function),
                )?;
                played += some;
                if let Some(test) = caught {
                    return Ok(Outcome::Caught { ring: program.ring.clone(), test });
                }
            }
        }
        Ok(Outcome::Survived { tests: played, of: all.len() })
    }
}

/// Which tests are tried first: those that caught others of the function, then of the file, for the time that they take;
/// slow ones come last. Then those of its module, those that are about its folder more than about all else, one of each
/// module that is about its room, and another one of each. In a module those first that reach the fewest.
#[derive(Debug)]
pub struct Order {
    by_file: HashMap<String, HashMap<String, usize>>,
    by_function: HashMap<String, HashMap<String, usize>>,
    /// Of each mutant.
    folders: HashMap<u32, String>,
}

/// A test is slow from here on.
const SLOW: u64 = 4000;

impl Order {
    pub fn of(mutants: &[Mutant]) -> Self {
        let folder = |one: &Mutant| (one.number, folder(&one.file).to_owned());
        Self {
            by_file: HashMap::new(),
            by_function: HashMap::new(),
            folders: mutants.iter().map(folder).collect(),
        }
    }

    pub fn caught(&mut self, file: &str, function: &str, test: &str) {
        let count = |all: &mut HashMap<String, HashMap<String, usize>>, key: String| {
            *all.entry(key).or_default().entry(test.to_owned()).or_default() += 1;
        };
        count(&mut self.by_file, file.to_owned());
        count(&mut self.by_function, format!("{file}: {function}"));
    }

    fn sort(&self, tests: &mut [&Reach], file: &str, function: &str) {
        let module = file
            .trim_start_matches("src/")
            .trim_end_matches(".rs")
            .trim_end_matches("/mod")
            .replace('/', "::");
        // A slow one that caught a single other one counts as if it had caught none.
        let score = |caught: Option<&HashMap<String, usize>>, one: &Reach| {
            let times = caught.and_then(|tests| tests.get(&one.test)).copied().unwrap_or(0);
            Reverse(times as u64 * SLOW / (one.milliseconds + 500))
        };
        let room = rooms::room_of(file);
        let of_room = |one: &Reach| room.and_then(|room| room.module_of(&one.ring, &one.test));
        let its_folder = folder(file);
        let is_about = |one: &Reach| {
            let is_its =
                |number: &&u32| self.folders.get(number).is_some_and(|at| at == its_folder);
            one.mutants.iter().filter(is_its).count() * 2 > one.mutants.len()
        };
        tests.sort_by_key(|one| (one.mutants.len(), one.milliseconds));
        // Which of its module each is; behind all of them what is about other rooms.
        let mut so_far: HashMap<usize, usize> = HashMap::new();
        let mut turn: HashMap<&str, usize> = HashMap::new();
        for one in tests.iter() {
            let its = of_room(one).map(|module| {
                let next = so_far.entry(module).or_default();
                *next += 1;
                *next
            });
            turn.insert(&one.test, its.unwrap_or(usize::MAX));
        }
        let key = format!("{file}: {function}");
        tests.sort_by_cached_key(|one| {
            (
                score(self.by_function.get(&key), one),
                score(self.by_file.get(file), one),
                one.milliseconds > SLOW,
                !one.test.starts_with(&module),
                !is_about(one),
                turn.get(one.test.as_str()).copied(),
                of_room(one),
            )
        });
    }
}

fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Adds a line to a file.
pub fn append(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let mut line = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    line.push(b'\n');
    let file = File::options().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(&line))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// All whole lines of files whose names begin so.
pub fn lines<T: for<'a> Deserialize<'a>>(folder: &Path, begin: &str) -> Vec<T> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begin))
    });
    paths.sort();
    let texts = paths.iter().map(|path| fs::read_to_string(path).unwrap_or_default());
    texts
        .flat_map(|text| {
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<T>>()
        })
        .collect()
}
