//! Puts a driver into kubelet's plugin folder: a new one, or the one before.

use super::console::{NodeResult, Stop};
use super::options::NodeWord;
use super::site::{OwnProgram, Plugins, Site};
use super::switch::{self, NewDriver};
use super::{durable, pages, plugin_folder, record, trigger};

/// The configuration that a machine begins with.
const CONFIGURATION: &str = include_str!("../../examples/config.toml");

/// `install` and `upgrade`: the driver that a person brought, or the program that runs.
pub fn run(site: &Site, own: OwnProgram) -> NodeResult {
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
    let mut new = new_driver(site, own)?;
    let _change = switch::begin(site, &plugins)?;
    if site.word == NodeWord::Install
        && let Some(text) = plugin_folder::leftover(site, &plugins)?
    {
        site.console.warn(&text);
    }
    // Before the switch: from there on kubelet calls.
    switch::put(site, &plugins, &mut new, || prepare(site))?;
    finish(site, &plugins)
}

fn new_driver(site: &Site, own: OwnProgram) -> NodeResult<NewDriver> {
    let name = "the new driver";
    let Some(path) = &site.options.binary else {
        return Ok(NewDriver { file: own.file, path: None, name });
    };
    if !path.is_file() {
        return Err(Stop::new(format!("there is no file {}", path.display())));
    }
    Ok(NewDriver { file: durable::open(path)?, path: Some(path.clone()), name })
}

/// `rollback`: again it puts back the newer one.
pub fn roll_back(site: &Site) -> NodeResult {
    let plugins = plugin_folder::in_use(site)?;
    let change = switch::begin(site, &plugins)?;
    if change.settled == Some(NodeWord::Rollback) {
        site.console.say("a rollback that was interrupted is finished");
    } else {
        let previous = site.previous();
        if !previous.is_file() {
            let previous = previous.display();
            return Err(Stop::new(format!("nothing to go back to: there is no {previous}")));
        }
        let mut new = NewDriver {
            file: durable::open(&previous)?,
            path: Some(previous),
            name: "the driver that was here before",
        };
        switch::put(site, &plugins, &mut new, || Ok(()))?;
    }
    finish(site, &plugins)
}

fn finish(site: &Site, plugins: &Plugins) -> NodeResult {
    trigger::change(site, plugins)?;
    if site.announces(&format!("noting what is installed in {}", record::path(site).display())) {
        record::write(site, plugins, &trigger::places(site))?;
    }
    pages::put(site, plugins);
    Ok(())
}

fn prepare(site: &Site) -> NodeResult {
    write_configuration(site)?;
    let log = site.log();
    if !log.is_dir() && site.announces(&format!("making {}", log.display())) {
        durable::make_folder(&log, 0o750)?;
    }
    site.step("configured");
    Ok(())
}

/// It may come to hold credentials, so its owner alone reads it.
fn write_configuration(site: &Site) -> NodeResult {
    let config = site.config();
    let shown = config.display();
    if config.exists() {
        site.console.say(&format!("the configuration stays as it is: {shown}"));
        return Ok(());
    }
    if site.announces(&format!("writing a configuration: {shown}")) {
        let folder = site.config_folder();
        durable::make_folder(&folder, 0o755)?;
        let text = configuration(site);
        durable::replace(&config, &folder.join(".config.toml.new"), text.as_bytes(), 0o600)?;
    }
    if site.options.cloud.is_none() {
        site.console.warn(&format!("no cloud is chosen yet: set cloud.kind in {shown}"));
    }
    Ok(())
}

fn configuration(site: &Site) -> String {
    let kind = match &site.options.cloud {
        Some(cloud) => format!("kind = \"{cloud}\""),
        None => "# kind = \"openstack\"".to_owned(),
    };
    let root = site.options.kubelet_root.as_ref().map(|root| {
        let root = root.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
        format!("kubelet_root = \"{root}\"")
    });
    let line = |line: &str| match &root {
        _ if line.starts_with("kind = ") => kind.clone(),
        Some(root) if line.starts_with("# kubelet_root = ") => root.clone(),
        _ => line.to_owned(),
    };
    CONFIGURATION.lines().map(|text| line(text) + "\n").collect()
}
