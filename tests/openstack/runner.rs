//! Runs tests as libtest does, as far as cargo and people rely on it: names as filters, `--exact`,
//! `--skip`, `--list`, `--test-threads`, and the line `test result:` at the end.

use std::panic;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// A test: its name, and what fails by panicking.
pub(crate) type Test = (&'static str, fn());

/// What the arguments ask for.
#[derive(Debug, Default)]
struct Wish {
    names: Vec<String>,
    skip: Vec<String>,
    exact: bool,
    list: bool,
    ignored: bool,
    threads: Option<usize>,
}

impl Wish {
    fn of(arguments: &[String]) -> Self {
        let mut wish = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
            let mut value = || {
                if value.is_empty() { rest.next().cloned() } else { Some(value.to_owned()) }
            };
            match name {
                "--exact" => wish.exact = true,
                "--list" => wish.list = true,
                "--ignored" => wish.ignored = true,
                "--skip" => wish.skip.extend(value()),
                "--test-threads" => wish.threads = value().and_then(|text| text.parse().ok()),
                "--format" | "--color" | "--logfile" | "-Z" => drop(value()),
                _ if name.starts_with('-') => {}
                _ => wish.names.push(argument.clone()),
            }
        }
        wish
    }

    fn wants(&self, name: &str) -> bool {
        let fits = |text: &String| if self.exact { name == text } else { name.contains(text) };
        let named = self.names.is_empty() || self.names.iter().any(fits);
        named && !self.skip.iter().any(fits) && !self.ignored
    }
}

/// Runs what the arguments ask for.
pub(crate) fn run(arguments: &[String], tests: Vec<Test>) -> ExitCode {
    let wish = Wish::of(arguments);
    let all = tests.len();
    let wanted: Vec<Test> = tests.into_iter().filter(|(name, _)| wish.wants(name)).collect();
    if wish.list {
        for (name, _) in &wanted {
            println!("{name}: test");
        }
        println!("\n{} tests, 0 benchmarks", wanted.len());
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", wanted.len());
    let begun = Instant::now();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = wish.threads.or_else(|| thread::available_parallelism().ok().map(Into::into));
    thread::scope(|scope| {
        for _ in 0..threads.unwrap_or(1).max(1) {
            scope.spawn(|| {
                while let Some((name, test)) = wanted.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let well = panic::catch_unwind(*test).is_ok();
                    println!("test {name} ... {}", if well { "ok" } else { "FAILED" });
                    if !well {
                        failed.lock().expect("no panic while held").push(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic while held");
    if !failed.is_empty() {
        println!("\nfailures:\n    {}", failed.join("\n    "));
    }
    println!(
        "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out; finished \
         in {:.2}s\n",
        if failed.is_empty() { "ok" } else { "FAILED" },
        wanted.len() - failed.len(),
        failed.len(),
        all - wanted.len(),
        begun.elapsed().as_secs_f64()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}
