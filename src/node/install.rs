//! Puts a driver into kubelet's plugin folder: a new one, or the one before.

use super::brought::BroughtFiles;
use super::configuring;
use super::console::{NodeResult, Stop};
use super::maker::DriverMaker;
use super::options::{NodeWord, RollbackTarget};
use super::site::{Plugins, Site};
use super::switch::{self, NewDriver};
use super::{
    durable, kept_drivers, maker, pages, plugin_folder, predecessor, readiness, record, trial,
    trigger, users,
};
use std::path::PathBuf;

/// `install` and `upgrade`: the driver that a person brought, or the program that runs.
pub(super) fn run(site: &Site, brought: &BroughtFiles) -> NodeResult {
    let plugins = if site.word == NodeWord::Upgrade {
        let plugins = plugin_folder::in_use(site)?;
        if !plugins.has_driver() {
            return Err(Stop::new(format!(
                "nothing to upgrade: there is no {}; install it first: ./install.sh install",
                plugins.driver().display()
            )));
        }
        plugins
    } else {
        plugin_folder::to_install(site)?
    };
    let new = new_driver(site)?;
    must_know_maps(&new)?;
    let _change = switch::begin(site, &plugins)?;
    // Only now: another install may have written one meanwhile.
    let plan = configuring::plan(site, brought)?;
    if site.word == NodeWord::Install
        && let Some(text) = plugin_folder::leftover(site, &plugins)?
    {
        site.console.warn(&text);
    }
    // Before the switch: from there on kubelet calls.
    let ready = |there, driver: &std::path::Path| {
        readiness::must_be_ready(site, &plugins, &plan, there, driver)
    };
    switch::put(site, &plugins, &new, ready, || {
        must_know_maps(&new)?;
        configuring::write(site, &plan)?;
        prepare(site)
    })?;
    finish(site, &plugins, false)?;
    readiness::tell_verdict(site, &plugins);
    Ok(())
}

fn new_driver(site: &Site) -> NodeResult<NewDriver> {
    let file = match &site.options.binary {
        Some(path) if !path.is_file() => {
            return Err(Stop::new(format!("there is no file {}", path.display())));
        }
        Some(path) => durable::open(path)?,
        None => {
            let copy = site.own.file.try_clone();
            copy.map_err(|error| Stop::new(format!("open this executable: {error}")))?
        }
    };
    let (path, name) = (site.options.binary.clone(), "the new driver");
    Ok(NewDriver { file, path, name, is_foreign: false, link: None })
}

/// `rollback`: again it puts back the newer one.
pub(super) fn roll_back(site: &Site) -> NodeResult {
    let plugins = plugin_folder::in_use(site)?;
    let to = site.options.to;
    // Another maker's may come back where ours was removed.
    if !durable::is_there(&plugins.driver()) && to != RollbackTarget::Predecessor {
        return Err(nothing_there(site, &plugins));
    }
    let change = switch::begin(site, &plugins)?;
    if change.settled == Some(NodeWord::Rollback) {
        site.console.say("a rollback that was interrupted is finished");
    } else {
        if !site.options.dry_run {
            // A change that was killed may have left it among them.
            kept_drivers::forget_the_one_in_place(site, &plugins)?;
        }
        let new = former_driver(site, &plugins, to)?;
        must_know_maps(&new)?;
        switch::put(site, &plugins, &new, |_, _| Ok(()), || must_know_maps(&new))?;
    }
    let is_foreign = maker::of(site, &plugins)? == DriverMaker::Foreign;
    finish(site, &plugins, is_foreign)?;
    if !is_foreign {
        readiness::tell_verdict(site, &plugins);
    }
    Ok(())
}

/// Refuses a driver that knows no maps while volumes are mounted through them. It is asked at the beginning, and once more
/// right before the switch: the driver in place mounts meanwhile.
fn must_know_maps(new: &NewDriver) -> NodeResult {
    // The program that runs knows them.
    let Some(path) = &new.path else { return Ok(()) };
    let maps = users::maps()?;
    if maps.is_empty() || trial::knows_maps(path) {
        return Ok(());
    }
    let why = format!(
        "refused, nothing was changed: {} knows no volumes that are mounted through maps of device mapper \
         (shield.mode), and would mount their disks beside the maps; move the pods that use these to another node \
         first (kubectl drain):",
        new.name
    );
    Err(Stop::with_lines(&why, &maps))
}

fn nothing_there(site: &Site, plugins: &Plugins) -> Stop {
    let kept = if predecessor::is_kept(site) {
        "\nto put the predecessor back: disk node rollback --to predecessor"
    } else {
        ""
    };
    Stop::new(format!(
        "nothing to roll back: there is no driver in {}; \
         disk node install installs one{kept}",
        plugins.driver_folder().display()
    ))
}

/// The driver that is to be put back.
fn former_driver(site: &Site, plugins: &Plugins, to: RollbackTarget) -> NodeResult<NewDriver> {
    let kept = kept_drivers::all(site);
    let told = |(number, place): &(usize, PathBuf)| {
        format!("--to {number}: {}, {}", trial::version(place), place.display())
    };
    let mut all: Vec<_> = kept.iter().map(told).collect();
    if predecessor::is_kept(site) {
        all.push(format!("--to predecessor: {}", predecessor::told(site)));
    }
    if site.options.dry_run {
        for line in &all {
            site.console.say(&format!("kept is {line}"));
        }
    }
    let number = match to {
        RollbackTarget::Predecessor => None,
        RollbackTarget::Kept(number) => Some(number),
        // The first one of ours took the place of another maker's.
        RollbackTarget::Before if kept.is_empty() && predecessor::is_kept(site) => None,
        RollbackTarget::Before => Some(1),
    };
    let Some(number) = number else { return predecessor_driver(site, plugins) };
    let place = kept_drivers::place(site, number);
    if !place.is_file() {
        let none = format!("nothing to go back to: there is no {}", place.display());
        if all.is_empty() {
            return Err(Stop::new(none));
        }
        return Err(Stop::with_lines(&format!("{none}; what is kept:"), &all));
    }
    Ok(NewDriver {
        file: durable::open(&place)?,
        path: Some(place),
        name: "the driver that was here before",
        is_foreign: false,
        link: None,
    })
}

fn predecessor_driver(site: &Site, plugins: &Plugins) -> NodeResult<NewDriver> {
    if !predecessor::is_kept(site) {
        return Err(Stop::new(format!(
            "nothing to go back to: no other maker's driver was here; there is no {}",
            site.predecessor().display()
        )));
    }
    let program = predecessor::program(site);
    site.console.say(&format!("this puts back {}", predecessor::told(site)));
    Ok(NewDriver {
        file: durable::open(&program)?,
        link: predecessor::link(site, plugins),
        is_foreign: true,
        path: Some(program),
        name: "the predecessor",
    })
}

fn finish(site: &Site, plugins: &Plugins, is_foreign: bool) -> NodeResult {
    trigger::change(site, plugins)?;
    if site.announces(&format!("noting what is installed in {}", record::path(site).display())) {
        record::write(site, plugins, is_foreign, &trigger::places(site))?;
    }
    pages::put(site, plugins);
    Ok(())
}

fn prepare(site: &Site) -> NodeResult {
    let log = site.log();
    if !log.is_dir() && site.announces(&format!("making {}", log.display())) {
        durable::make_folder(&log, 0o750)?;
    }
    site.step("configured");
    Ok(())
}
