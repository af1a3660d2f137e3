//! The switch from one driver to another. kubelet watches its plugin folder and calls whatever appears
//! there, so nothing appears before it is complete: all is written under hidden names, flushed, and
//! renamed at the end. What kubelet still runs of the old file it keeps.

use super::console::{NodeResult, Stop};
use super::maker::{self, DriverMaker};
use super::options::NodeWord;
use super::site::{Plugins, Site};
use super::{durable, ending, kept_drivers, predecessor, system, trial};
use crate::host::files::{self, LockedFile};
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long another change is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is asked whether it is over.
const PAUSE: Duration = Duration::from_millis(50);

/// A change that has begun: no other one does until it is dropped.
#[derive(Debug)]
pub(super) struct BegunChange {
    /// Which change an earlier word had made without noting it; that is done now.
    pub(super) settled: Option<NodeWord>,
    lock: Option<LockedFile>,
}

/// A driver to be put there.
#[derive(Debug)]
pub(super) struct NewDriver {
    pub(super) file: File,
    /// Where it is, to be asked there; nothing if it is the program that runs.
    pub(super) path: Option<PathBuf>,
    /// What it is, for people.
    pub(super) name: &'static str,
    /// Whether it is another maker's, that was here before.
    pub(super) is_foreign: bool,
    /// Where that one led to, if it was a link that still leads to the same.
    pub(super) link: Option<PathBuf>,
}

impl NewDriver {
    /// Another maker's comes back with its own permissions.
    fn mode(&self) -> u32 {
        let own = self.file.metadata().ok().filter(|_| self.is_foreign);
        own.map_or(0o755, |found| found.mode() & 0o7777)
    }
}

/// One change at a time. Beside the noted driver that is all: what that one left stays.
pub(super) fn begin_beside(site: &Site, plugins: &Plugins) -> NodeResult<BegunChange> {
    let mut change = BegunChange { settled: None, lock: None };
    if !site.options.dry_run {
        durable::make_folder(&site.state(), 0o700)?;
        change.lock = Some(lock(&site.state().join(".install.lock"))?);
        bring_back(plugins)?;
    }
    Ok(change)
}

/// One change at a time, and what an earlier one left is settled first.
pub(super) fn begin(site: &Site, plugins: &Plugins) -> NodeResult<BegunChange> {
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
        site.state().join("predecessor.new"),
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

fn lock(path: &Path) -> NodeResult<LockedFile> {
    let until = Instant::now() + PATIENCE;
    let wrong = |error| Stop::new(format!("lock {}: {error}", path.display()));
    let file = files::open_shared(path).map_err(wrong)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(LockedFile::of(file)),
            Err(TryLockError::Error(error)) => return Err(wrong(error)),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                return Err(Stop::new("another install.sh is at work here"));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
}

/// Puts a driver in its place, if it is not what is there already. It must be `ready` before anything is
/// changed: that is asked of the copy that would be called.
pub(super) fn put(
    site: &Site,
    plugins: &Plugins,
    new: &NewDriver,
    ready: impl Fn(DriverMaker, &Path) -> NodeResult,
    before_the_switch: impl FnOnce() -> NodeResult,
) -> NodeResult {
    let driver = plugins.driver();
    let there = maker::of(site, plugins)?;
    // One that cannot be read is replaced.
    if is_as_wanted(plugins, new) {
        site.console.say(&format!("{} is what is here already: {}", new.name, driver.display()));
        ready(there, &driver)?;
        return before_the_switch();
    }
    if plugins.driver().is_dir() {
        return Err(Stop::new(format!(
            "refused, nothing was changed: {} is a folder, and no driver; move it away",
            plugins.driver().display()
        )));
    }
    if site.options.dry_run {
        match &new.path {
            None => ready(there, Path::new("/proc/self/exe"))?,
            Some(path) if system::is_executable(path) => {
                trial::must_be_driver(site, path, new.is_foreign)?;
                ready(there, path)?;
            }
            Some(_) => {}
        }
    }
    let mut staged = None;
    if site.announces(&format!(
        "copying {} under a hidden name into {}, and testing it there",
        new.name,
        plugins.folder.display()
    )) {
        let copy = stage(site, plugins, new)?;
        ready(there, &copy.file)?;
        staged = Some(copy);
    }
    keep(site, plugins, there)?;
    before_the_switch()?;
    site.step("kept");
    if site.announces(&format!("renaming it to {}", driver.display()))
        && let Some(staged) = staged
    {
        let _held = ending::hold();
        staged.switch(site, plugins)?;
        site.step("switched");
        if !settle(site, plugins, site.word)? {
            kept_drivers::forget_the_one_in_place(site, plugins)?;
        }
    }
    site.step("settled");
    Ok(())
}

/// Whether the driver in its place is this one, and can be called.
fn is_as_wanted(plugins: &Plugins, new: &NewDriver) -> bool {
    let driver = plugins.driver();
    durable::mode(&driver) == Some(new.mode())
        && durable::is_same(&new.file, &driver).unwrap_or(false)
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
        let path = self.folder.as_ref().unwrap_or(&self.file);
        let _ = durable::remove_all(path);
        ending::end(path);
    }
}

/// The copy is made in the folder where it will be: a rename is only atomic within a file system, and
/// what it must be able to run there (noexec, the label of `SELinux`) is tested with it.
fn stage(site: &Site, plugins: &Plugins, driver: &NewDriver) -> NodeResult<StagedDriver> {
    let folder = plugins.driver_folder();
    let staged = if folder.is_dir() {
        ending::begin(&folder.join(".disk"));
        StagedDriver { file: folder.join(".disk"), folder: None }
    } else {
        let new = plugins.new_folder();
        ending::begin(&new);
        durable::make_folder(&plugins.folder, 0o755)?;
        durable::make_folder(&new, 0o755)?;
        let staged = StagedDriver { file: new.join("disk"), folder: Some(new.clone()) };
        let hidden = site.kept_hidden_config();
        if hidden.is_file() {
            durable::copy(&hidden, &new.join(".config.toml"))?;
        }
        staged
    };
    match &driver.link {
        Some(link) => durable::link(link, &staged.file)?,
        None => durable::copy_open(&driver.file, &staged.file, driver.mode())?,
    }
    if driver.is_foreign {
        // It may read them when it is tested.
        predecessor::put_files(site, durable::folder_of(&staged.file))?;
    }
    durable::flush(durable::folder_of(&staged.file))?;
    site.step("staged");
    trial::must_be_driver(site, &staged.file, driver.is_foreign)?;
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

/// What is there is kept until it is known that it may go: another maker's in its own place, ours among the
/// former ones. One of ours that does not answer any more is of no use for a rollback.
fn keep(site: &Site, plugins: &Plugins, there: DriverMaker) -> NodeResult {
    let driver = plugins.driver();
    let place = match there {
        DriverMaker::None => return Ok(()),
        DriverMaker::Foreign => site.predecessor(),
        DriverMaker::Ours => site.previous(),
        DriverMaker::Damaged => site.previous_folder().join("disk.damaged"),
    };
    if !driver.is_file()
        || !site.announces(&format!("keeping a copy of the old driver as {}", place.display()))
    {
        return Ok(());
    }
    if there == DriverMaker::Foreign {
        return predecessor::keep(site, plugins).map_err(|stop| {
            Stop::new(format!(
                "refused, nothing was changed: the old driver cannot be kept: {}",
                stop.text
            ))
        });
    }
    let folder = site.previous_folder();
    durable::make_folder(&folder, 0o700)?;
    let copy = folder.join(".copy");
    durable::copy(&driver, &copy)?;
    let to = if there == DriverMaker::Ours { leaving(site, site.word) } else { place };
    Ok(durable::rename(&copy, &to)?)
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
    if durable::is_same(&durable::open(&leaving)?, &plugins.driver())? {
        files::remove_if_there(&leaving)?;
        return Ok(false);
    }
    kept_drivers::take_in(site, plugins, &leaving)?;
    Ok(true)
}
