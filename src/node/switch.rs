//! The switch from one driver to another. kubelet watches its plugin folder and calls whatever appears
//! there, so nothing appears before it is complete: all is written under hidden names, flushed, and
//! renamed at the end. What kubelet still runs of the old file it keeps.

use super::console::{NodeResult, Stop};
use super::durable;
use super::options::NodeWord;
use super::site::{Plugins, Site};
use super::trial;
use crate::host::files;
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long another change is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is asked whether it is over.
const PAUSE: Duration = Duration::from_millis(50);

/// A change that has begun: no other one does until it is dropped.
#[derive(Debug)]
pub struct BegunChange {
    /// Which change an earlier word had made without noting it; that is done now.
    pub settled: Option<NodeWord>,
    /// Held by it.
    lock: Option<Flock<File>>,
}

/// A driver to be put there.
#[derive(Debug)]
pub struct NewDriver {
    /// Itself.
    pub file: File,
    /// Where it is, to be asked there; nothing if it is the program that runs.
    pub path: Option<PathBuf>,
    /// What it is, for people.
    pub name: &'static str,
}

/// One change at a time. Beside the noted driver that is all: what that one left stays.
pub fn begin_beside(site: &Site, plugins: &Plugins) -> NodeResult<BegunChange> {
    let mut change = BegunChange { settled: None, lock: None };
    if !site.options.dry_run {
        durable::make_folder(&site.state(), 0o700)?;
        change.lock = Some(lock(&site.state().join(".install.lock"))?);
        bring_back(plugins)?;
    }
    Ok(change)
}

/// One change at a time, and what an earlier one left is settled first.
pub fn begin(site: &Site, plugins: &Plugins) -> NodeResult<BegunChange> {
    let mut change = begin_beside(site, plugins)?;
    if site.options.dry_run {
        return Ok(change);
    }
    let driver = plugins.driver_folder();
    for left in [
        plugins.new_folder(),
        driver.join(".disk"),
        driver.join(".leaving"),
        site.previous_folder().join(".copy"),
    ] {
        durable::remove_all(&left)?;
    }
    for word in [NodeWord::Install, NodeWord::Rollback] {
        if settle(site, plugins, word)? {
            change.settled = Some(word);
        }
    }
    site.step("begun");
    Ok(change)
}

/// An uninstall that was killed between its two looks has the driver under another name alone.
fn bring_back(plugins: &Plugins) -> NodeResult {
    let leaving = plugins.driver_folder().join(".leaving");
    if leaving.is_file() && !durable::is_there(&plugins.driver()) {
        durable::rename(&leaving, &plugins.driver())?;
    }
    Ok(())
}

fn lock(path: &Path) -> NodeResult<Flock<File>> {
    let until = Instant::now() + PATIENCE;
    let mut file = files::open_shared(path)
        .map_err(|error| Stop::new(format!("open {}: {error}", path.display())))?;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((_, errno)) if errno != nix::errno::Errno::EWOULDBLOCK => {
                return Err(Stop::new(format!("lock {}: {errno}", path.display())));
            }
            Err(_) if Instant::now() >= until => {
                return Err(Stop::new("another install.sh is at work here"));
            }
            Err((same, _)) => file = same,
        }
        std::thread::sleep(PAUSE);
    }
}

/// Puts a driver in its place, if it is not what is there already.
pub fn put(
    site: &Site,
    plugins: &Plugins,
    new: &mut NewDriver,
    before_the_switch: impl FnOnce() -> NodeResult,
) -> NodeResult {
    let driver = plugins.driver();
    // One that cannot be read is replaced.
    if plugins.is_runnable() && durable::is_same(&mut new.file, &driver).unwrap_or(false) {
        site.console.say(&format!("{} is what is here already: {}", new.name, driver.display()));
        return before_the_switch();
    }
    if site.options.dry_run
        && let Some(path) = &new.path
        && durable::mode(path).is_some_and(|mode| mode & 0o111 != 0)
    {
        trial::must_be_driver(path, site.word == NodeWord::Rollback)?;
    }
    let mut staged = None;
    if site.announces(&format!(
        "copying {} under a hidden name into {}, and testing it there",
        new.name,
        plugins.folder.display()
    )) {
        staged = Some(stage(site, plugins, &mut new.file)?);
    }
    before_the_switch()?;
    if driver.is_file()
        && site.announces(&format!(
            "keeping a copy of the old driver as {}",
            site.previous().display()
        ))
    {
        keep(site, &driver)?;
    }
    site.step("kept");
    if site.announces(&format!("renaming it to {}", driver.display()))
        && let Some(staged) = staged
    {
        staged.switch(site, plugins)?;
    }
    site.step("switched");
    if !site.options.dry_run {
        settle(site, plugins, site.word)?;
    }
    site.step("settled");
    Ok(())
}

/// A driver beside its place. What did not get there goes when this is dropped.
#[derive(Debug)]
struct StagedDriver {
    file: PathBuf,
    /// Its folder, where that is not there yet.
    folder: Option<PathBuf>,
}

impl Drop for StagedDriver {
    fn drop(&mut self) {
        // The next change removes what is left.
        let _ = durable::remove_all(self.folder.as_ref().unwrap_or(&self.file));
    }
}

/// The copy is made in the folder where it will be: a rename is only atomic within a file system, and
/// what it must be able to run there (noexec, the label of `SELinux`) is tested with it.
fn stage(site: &Site, plugins: &Plugins, from: &mut File) -> NodeResult<StagedDriver> {
    let folder = plugins.driver_folder();
    if plugins.driver().is_dir() {
        return Err(Stop::new(format!("{} is a folder", plugins.driver().display())));
    }
    let staged = if folder.is_dir() {
        StagedDriver { file: folder.join(".disk"), folder: None }
    } else {
        let new = plugins.new_folder();
        durable::make_folder(&plugins.folder, 0o755)?;
        durable::make_folder(&new, 0o755)?;
        let staged = StagedDriver { file: new.join("disk"), folder: Some(new.clone()) };
        let hidden = site.kept_hidden_config();
        if hidden.is_file() {
            durable::copy(&hidden, &new.join(".config.toml"))?;
        }
        staged
    };
    durable::copy_open(from, &staged.file, 0o755)?;
    durable::flush(durable::folder_of(&staged.file))?;
    site.step("staged");
    trial::must_be_driver(&staged.file, site.word == NodeWord::Rollback)?;
    site.step("tested");
    Ok(staged)
}

impl StagedDriver {
    fn switch(self, site: &Site, plugins: &Plugins) -> NodeResult {
        if let Some(new) = &self.folder {
            durable::rename(new, &plugins.driver_folder())?;
            files::remove_if_there(&site.kept_hidden_config())?;
        } else {
            durable::rename(&self.file, &plugins.driver())?;
            // The driver's folder was not seen when the copy was made.
            durable::remove_all(&plugins.new_folder())?;
        }
        Ok(())
    }
}

/// The old driver, until the switch is made; only then it takes the place of the one before it.
fn keep(site: &Site, driver: &Path) -> NodeResult {
    let folder = site.previous_folder();
    durable::make_folder(&folder, 0o700)?;
    let copy = folder.join(".copy");
    durable::copy(driver, &copy)?;
    durable::rename(&copy, &leaving(site, site.word))?;
    Ok(())
}

/// An upgrade is an install; a rollback that was interrupted must not be made a second time, which
/// would undo it.
fn leaving(site: &Site, word: NodeWord) -> PathBuf {
    let kind = if word == NodeWord::Rollback { "rollback" } else { "install" };
    site.previous_folder().join(format!(".leaving-by-{kind}"))
}

/// If the driver that was leaving has left, it is the previous one now: whether it is.
fn settle(site: &Site, plugins: &Plugins, word: NodeWord) -> NodeResult<bool> {
    let leaving = leaving(site, word);
    // Without a driver here, the one that was leaving left another folder.
    if !leaving.is_file() || !plugins.has_driver() {
        return Ok(false);
    }
    if durable::is_same(&mut durable::open(&leaving)?, &plugins.driver())? {
        files::remove_if_there(&leaving)?;
        return Ok(false);
    }
    durable::rename(&leaving, &site.previous())?;
    Ok(true)
}
