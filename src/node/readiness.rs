//! Whether a driver is ready on this machine: its own doctor says so, with the configuration that it would
//! have. And what the doctor says when it is in its place.

use super::brought::BroughtFile;
use super::configuring::{self, CREDENTIALS, ConfigurationPlan};
use super::console::{NodeResult, Stop, lines};
use super::maker::DriverMaker;
use super::site::{Plugins, Site};
use super::{kubelet, users};
use crate::host::{files, tool};
use crate::model::sorting::sort_by_key;
use crate::model::text::{several, visible};
use crate::ports::clock::Deadline;
use serde::Deserialize;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// How long the doctor may take: it waits for the cloud.
const PATIENCE: Duration = Duration::from_secs(60);

/// And where it asks no cloud: a probe of a pod waits for it.
const WITHOUT_CLOUD: Duration = Duration::from_secs(10);

/// What a doctor found.
#[derive(Debug, Clone, Deserialize)]
struct ToldFinding {
    check: String,
    level: String,
    found: String,
    fix: Option<String>,
}

/// A doctor's whole answer.
#[derive(Debug, Deserialize)]
struct ToldFindings {
    findings: Vec<ToldFinding>,
}

impl ToldFinding {
    fn error(check: &str, found: String, fix: String) -> Self {
        Self { check: check.to_owned(), level: "error".to_owned(), found, fix: Some(fix) }
    }

    fn is_error(&self) -> bool {
        self.level == "error"
    }

    /// A line for what was found, and one for what ends it.
    fn told(&self) -> String {
        let fix = self.fix.as_ref().map(|fix| format!("\n      to do: {}", visible(fix)));
        format!("\n  {}: {}{}", self.check, visible(&self.found), fix.unwrap_or_default())
    }
}

/// Asks a driver's doctor; why it could not be asked, in words.
fn ask(
    site: &Site,
    driver: &Path,
    words: &[&str],
    config: Option<&Path>,
) -> Result<Vec<ToldFinding>, String> {
    let mut environment = kubelet::environment(&site.proc);
    if let Some(config) = config {
        let config = config.to_string_lossy().into_owned();
        environment.push(("INCLOUD_DISK_CONFIG".to_owned(), config));
    }
    let environment: Vec<_> =
        environment.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let words: Vec<_> = ["doctor", "--json"].iter().chain(words).copied().collect();
    let patience = if words.contains(&"configuration") { WITHOUT_CLOUD } else { PATIENCE };
    let answer = tool::launch(driver, &words, &environment, Deadline::after(patience));
    let answer = answer.map_err(|error| error.cause)?;
    let told: Result<ToldFindings, _> = serde_json::from_str(&answer.text);
    told.map(|told| told.findings).map_err(|_| answer.last_line().to_owned())
}

/// A file that is tried before it is installed. It may hold credentials: it is in memory alone, and seen by
/// root alone, by its path.
struct TriedFile {
    path: String,
    /// Where it came from, for people.
    origin: String,
    /// What the path leads to, until this is dropped.
    _file: File,
}

impl TriedFile {
    fn write(text: &str, origin: &str) -> Result<Self, String> {
        let write = || {
            let mut file = files::in_memory("incloud-disk-config")?;
            file.set_permissions(Permissions::from_mode(0o600))?;
            file.write_all(text.as_bytes())?;
            let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
            // Where /proc is that of other processes the number may be another one's.
            if files::read_text(&path)? != text {
                return Err(std::io::Error::other("/proc is that of other processes"));
            }
            Ok(Self { path, origin: origin.to_owned(), _file: file })
        };
        write().map_err(|error| format!("the configuration cannot be tried: {error}"))
    }
}

/// What the doctor of this driver says of one part, with the configuration of the plan.
fn look(
    site: &Site,
    plan: &ConfigurationPlan,
    driver: &Path,
    part: &str,
) -> Result<Vec<ToldFinding>, String> {
    let words = ["--only", part];
    if !plan.is_named && !plan.is_new {
        return ask(site, driver, &words, Some(&site.config()));
    }
    let credentials = plan.credentials.as_ref();
    let try_it = |new: &BroughtFile| TriedFile::write(&new.text, &new.path.to_string_lossy());
    let credentials = credentials.map(try_it).transpose()?;
    // It names what is not there yet, or is another one.
    let place = credentials.as_ref().map_or(CREDENTIALS, |new| &new.path);
    let config = TriedFile::write(&plan.text.replace(CREDENTIALS, place), &plan.origin)?;
    let mut tried: Vec<_> = credentials.iter().chain([&config]).collect();
    // Of two numbers one may begin with the other.
    sort_by_key(&mut tried, |file| std::cmp::Reverse(file.path.len()));
    let shown = |told: &str| {
        tried.iter().fold(told.to_owned(), |told, file| told.replace(&file.path, &file.origin))
    };
    ask(site, driver, &words, Some(Path::new(&config.path))).map(|all| {
        let shown = |one: ToldFinding| ToldFinding {
            found: shown(&one.found),
            fix: one.fix.as_deref().map(shown),
            ..one
        };
        all.into_iter().map(shown).collect()
    })
}

/// Says which disks the new driver would not use: a volume that is on one of them cannot be mounted again.
fn tell_transports(site: &Site, found: &[ToldFinding]) {
    for one in found.iter().filter(|one| one.check == "transports") {
        site.console.warn(one.told().trim());
    }
}

/// Refuses a driver that is not ready for what it is to take over, before anything is changed.
pub(super) fn must_be_ready(
    site: &Site,
    plugins: &Plugins,
    plan: &ConfigurationPlan,
    there: DriverMaker,
    driver: &Path,
) -> NodeResult {
    if there == DriverMaker::Foreign {
        return must_take_over(site, plugins, plan, driver);
    }
    // A template is to be filled in; ours is not held up by a cloud that is down, for an upgrade may be what
    // mends that: but what cannot be read is told.
    if !plan.is_named && plan.is_new {
        return Ok(());
    }
    let found = match look(site, plan, driver, "configuration") {
        Ok(found) => found,
        // One of before this option says nothing of it.
        Err(_) if !plan.is_named => return Ok(()),
        Err(why) => {
            let found = format!("it could not be tried: {why}");
            vec![ToldFinding::error("doctor", found, "take a newer driver".to_owned())]
        }
    };
    tell_transports(site, &found);
    let wrong: Vec<_> = found.iter().filter(|one| one.is_error()).map(ToldFinding::told).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    if plan.is_named && !site.options.consent.although_not_ready {
        return Err(Stop::new(format!(
            "refused, nothing was changed: the configuration {} is not right:{}\n\
             Put that right, or install it all the same: --although-not-ready",
            plan.origin,
            wrong.concat()
        )));
    }
    site.console.warn(&format!("the configuration is not right, and stays so:{}", wrong.concat()));
    Ok(())
}

fn must_take_over(
    site: &Site,
    plugins: &Plugins,
    plan: &ConfigurationPlan,
    driver: &Path,
) -> NodeResult {
    let old = plugins.driver();
    let old = old.display();
    if !site.is_this_machine() {
        site.console.say(&format!(
            "{old} is another maker's driver; whether this one is ready is not tried: DESTDIR is no machine that runs"
        ));
        return Ok(());
    }
    site.console.say(&format!(
        "{old} is another maker's driver: trying whether this one is ready to take its place"
    ));
    let mut missing = match look(site, plan, driver, "takeover") {
        Ok(found) => found,
        Err(why) => vec![ToldFinding::error(
            "doctor",
            format!("the new driver cannot be asked whether it is ready: {why}"),
            "take a newer one".to_owned(),
        )],
    };
    tell_transports(site, &missing);
    missing.retain(ToldFinding::is_error);
    if !plan.is_named && plan.is_new && missing.iter().any(|one| one.check == "configuration") {
        // A person has none yet: what the one to be filled in lacks is no help.
        missing = vec![ToldFinding::error(
            "configuration",
            format!("there is no {} yet, and none was named", site.config().display()),
            "write one, and name it: install --config FILE; or install --cloud-config FILE for a cloud.conf"
                .to_owned(),
        )];
    }
    missing.extend(out_of_sight(site));
    if missing.is_empty() {
        site.console
            .say("it is ready: it knows the cloud, this machine, and each volume that is mounted");
        return Ok(());
    }
    let told: String = missing.iter().map(ToldFinding::told).collect();
    let found = configuring::found(site, &plugins.driver_folder());
    let found = if found.is_empty() || plan.is_named {
        String::new()
    } else {
        format!("\nWhat was found of the cloud, and is not taken by itself:{}", lines(&found))
    };
    if site.options.consent.although_not_ready {
        site.console.warn(&format!(
            "the new driver is not ready, and takes its place all the same:{told}{found}"
        ));
        return Ok(());
    }
    Err(Stop::new(format!(
        "refused, nothing was changed: {old} stays, for the new driver could not take its place yet:{told}{found}\n\
         Put that right, and install again. --although-not-ready replaces it all the same: until that is right\n\
         no volume is attached, mounted or unmounted on this machine."
    )))
}

/// What of kubelet's surroundings is not ours: then what is found here is not what its calls find.
fn out_of_sight(site: &Site) -> Vec<ToldFinding> {
    let all = kubelet::running(&site.proc);
    let Some(kubelet) = kubelet::ours(&all, None) else { return Vec::new() };
    let mut found = Vec::new();
    for (namespace, what) in [("net", "network"), ("uts", "name of the host")] {
        if kubelet::shares(&site.proc, kubelet.pid, namespace) == Some(false) {
            found.push(ToldFinding::error(
                "kubelet",
                format!("kubelet has another {what} than this program"),
                "run this with the machine's own: hostNetwork: true in the pod".to_owned(),
            ));
        }
    }
    match users::seen_by_kubelet_alone(site, kubelet.pid) {
        Ok(places) => found.extend(places.iter().map(|place| {
            ToldFinding::error(
                "volumes",
                format!("{} is mounted for kubelet, and cannot be seen from here", place.display()),
                "run this with the machine's mounts: mountPropagation: HostToContainer in the pod"
                    .to_owned(),
            )
        })),
        Err(stop) => {
            found.push(ToldFinding::error("volumes", stop.text, "run this as root".to_owned()));
        }
    }
    found
}

/// The last line of an installation. Whatever it says, the driver is in its place.
pub(super) fn tell_verdict(site: &Site, plugins: &Plugins) {
    if site.options.dry_run || !site.is_this_machine() {
        return;
    }
    let found = match ask(site, &plugins.driver(), &[], None) {
        Ok(found) => found,
        Err(why) => {
            return site
                .console
                .warn(&format!("the driver is in place; disk doctor did not answer: {why}"));
        }
    };
    let checks = |level: &str| {
        let mut names: Vec<_> =
            found.iter().filter(|one| one.level == level).map(|one| one.check.as_str()).collect();
        let count = names.len();
        names.dedup();
        (count, names.join(", "))
    };
    let (errors, of_errors) = checks("error");
    let (warnings, of_warnings) = checks("warning");
    match (errors, warnings) {
        (0, 0) => {
            site.console.say("the driver is in place, and well: disk doctor finds nothing wrong");
        }
        (0, _) => site.console.say(&format!(
            "the driver is in place; {} ({of_warnings}): disk doctor",
            several(warnings, "thing could be better", "things could be better")
        )),
        _ => {
            let first = found.iter().find(|one| one.is_error()).map(|one| visible(&one.found));
            site.console.warn(&format!(
                "the driver is in place, and not well: {} ({of_errors}; the first: {}): disk doctor",
                several(errors, "error", "errors"),
                first.unwrap_or_default()
            ));
        }
    }
}

/// What the configuration of the driver in place lacks, a line each. One that cannot be asked says nothing.
pub(super) fn lacks(site: &Site, plugins: &Plugins) -> Vec<String> {
    let config = site.config();
    let told = ask(site, &plugins.driver(), &["--only", "configuration"], Some(&config));
    let line = |one: ToldFinding| {
        let fix = one.fix.map(|fix| format!(": {fix}")).unwrap_or_default();
        format!("{}{fix}", one.found)
    };
    told.into_iter().flatten().filter(ToldFinding::is_error).map(line).collect()
}
