//! `install.sh` on a machine with a real systemd and udevd: what it puts there works, each word of it
//! does what it says, and nothing stays.

use super::unasked::goes_and_comes;
use super::usual::{Life, a_pod_runs};
use super::{Kernels, POD, Scenario};
use crate::host::image::DRIVER;
use crate::host::plug::Bus;
use crate::scene::{Outcome, POD_HAS_ITS_DISK, Scene};
use serde_json::Value;
use std::time::Duration;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "install",
    about: "install.sh beside systemd and udevd: install, heal, verify, upgrade, rollback, uninstall",
    settings: &[("ext4", Bus::VirtioBlk, Kernels::One)],
    control: POD_HAS_ITS_DISK,
    controls: Kernels::One,
    play,
};

const TIMER: &str = "incloud-disk-heal.timer";
const RULE: &str = "/etc/udev/rules.d/90-incloud-disk.rules";
/// What a person brought along: a driver, and another build of it.
const BROUGHT: &str = "/root/disk";
const NEWER: &str = "/root/newer";

fn play(scene: &mut Scene<'_>) -> Outcome {
    scene.bring_installer()?;
    // The image was installed as a folder: a machine that booted from it is no other.
    scene.install_sh(&["verify"], 0)?;
    scene.machine.shell(&format!(
        "cp {DRIVER} {BROUGHT} && cp {DRIVER} {NEWER} && echo newer >>{NEWER} && dmesg -C"
    ))?;
    scene.install_sh(&["uninstall", "--purge"], 0)?;
    nothing_is_left(scene)?;
    scene.says("ls -d /etc/incloud-disk /var/lib/incloud-disk 2>/dev/null", "")?;

    scene.install_sh(&["install", "--binary", BROUGHT, "--cloud", "openstack"], 0)?;
    is_installed(scene)?;
    scene.says("grep '^kind' /etc/incloud-disk/config.toml", "kind = \"openstack\"")?;
    // The control goes without what was installed for udev and systemd.
    if scene.is_control {
        scene.machine.shell(&format!(
            "rm {RULE} && systemctl disable --now {TIMER} 2>&1 && udevadm control --reload"
        ))?;
        scene.row("without the rule and the timer", "", true);
    }
    // The person fills it in.
    scene.configure("", "")?;
    let life = a_pod_runs(scene)?;
    goes_and_comes(scene, &life)?;
    let letter = life.has_another_letter(scene)?;
    scene.event_healed(&letter)?;
    doctor_is_right(scene)?;

    without_the_rule(scene, &life)?;
    other_builds(scene, &life)?;

    let said = scene.install_sh(&["uninstall"], 1)?;
    let (global, folder) = (life.data.global(), life.data.pod(POD));
    let is_named = said.contains("refused") && said.contains(&global) && said.contains(&folder);
    scene.check("its mounts are named", is_named, said.trim().replace('\n', "; "))?;
    is_installed(scene)?;
    life.ends(scene)?;
    scene.install_sh(&["uninstall"], 0)?;
    nothing_is_left(scene)?;
    scene.says("ls /etc/incloud-disk", "config.toml")?;

    // As it was, for the next scenario.
    scene.install_sh(&["install", "--binary", BROUGHT, "--cloud", "openstack"], 0)?;
    is_installed(scene)?;
    scene.machine.shell(&format!("rm -rf {BROUGHT} {NEWER} /root/incloud-disk"))?;
    Ok(())
}

/// systemd and udevd know what was installed, and find nothing wrong with it.
fn is_installed(scene: &mut Scene<'_>) -> Outcome {
    scene.says(&format!("systemctl is-active {TIMER}"), "active")?;
    scene.says(&format!("systemctl is-enabled {TIMER}"), "enabled")?;
    let units = format!("{TIMER} incloud-disk-heal.service incloud-disk-heal@vdb.service");
    scene
        .says(&format!("systemd-analyze verify --man=no --recursive-errors=no {units} 2>&1"), "")?;
    scene.says("systemctl list-units --failed --no-legend --plain", "")?;
    scene.udevd_wants("incloud-disk-heal@vda.service")?;
    scene.install_sh(&["verify"], 0).map(drop)
}

fn nothing_is_left(scene: &mut Scene<'_>) -> Outcome {
    let folder = DRIVER.trim_end_matches("/disk");
    scene.says(
        &format!(
            "ls -d {folder} {RULE} /usr/local/sbin/disk /usr/local/share/man/man8/disk* 2>/dev/null; \
             find /etc/systemd /run/systemd/system /etc/udev -name '*incloud*'"
        ),
        "",
    )?;
    scene.says("systemctl list-unit-files --no-legend 'incloud-disk*'", "")?;
    scene.says("systemctl list-timers --all --no-legend 'incloud-disk*'", "")?;
    scene.says("systemctl list-units --failed --no-legend --plain", "")?;
    scene.udevd_wants("")?;
    // Of what systemd was told of disks that came before nothing is left either.
    scene.says("systemctl list-units --all --no-legend --plain 'incloud-disk*'", "")
}

/// A person takes the rule away: that is told, and the timer is the net beneath it.
fn without_the_rule(scene: &mut Scene<'_>, life: &Life) -> Outcome {
    scene.machine.shell(&format!("rm {RULE} && udevadm control --reload"))?;
    let said = scene.install_sh(&["verify"], 1)?;
    scene.check("what is missing is named", said.contains(RULE), said.trim())?;
    let found = finding(&doctor(scene, 1)?, "udev");
    let is_told = found.contains("warning") && found.contains("our rule is not installed");
    scene.check("doctor says so too", is_told, found)?;

    // It would be up to a minute. A drop-in is how people change that, and no drift.
    let drop_in = format!("/etc/systemd/system/{TIMER}.d");
    scene.machine.put(
        &format!("{drop_in}/soon.conf"),
        "[Timer]\nOnActiveSec=1s\nOnUnitInactiveSec=2s\nAccuracySec=100ms\n",
    )?;
    scene.machine.shell(&format!("systemctl daemon-reload && systemctl restart {TIMER}"))?;
    goes_and_comes(scene, life)?;
    // The pod may have its disk a moment before the service has said so.
    scene.check_soon("the timer's service healed", Duration::from_secs(30), |scene| {
        let said = scene.journal_of("incloud-disk-heal.service")?;
        Ok((said.contains("switched"), said))
    })?;
    scene.machine.shell(&format!("rm -r {drop_in} && systemctl daemon-reload"))?;
    Ok(())
}

/// An upgrade puts back what is missing; a rollback the driver that was there before. The pod runs.
fn other_builds(scene: &mut Scene<'_>, life: &Life) -> Outcome {
    scene.install_sh(&["upgrade", "--binary", NEWER], 0)?;
    scene.says(&format!("cmp {DRIVER} {NEWER}"), "")?;
    is_installed(scene)?;
    life.has_its_disk(scene)?;
    scene.install_sh(&["rollback"], 0)?;
    scene.says(&format!("cmp {DRIVER} {BROUGHT}"), "")?;
    is_installed(scene)?;
    life.has_its_disk(scene)
}

/// Beside a real udevd and systemd, and without a kubelet, doctor says what is true.
fn doctor_is_right(scene: &mut Scene<'_>) -> Outcome {
    let told = doctor(scene, 1)?;
    for (check, level, words) in [
        ("kubelet", "warning", "no kubelet runs here"),
        ("plugin folder", "ok", DRIVER),
        ("udev", "ok", RULE),
        ("systemd", "ok", TIMER),
        ("sight", "ok", "every process"),
        ("volumes", "ok", "1 volume is"),
    ] {
        let found = finding(&told, check);
        let well = found.starts_with(level) && found.contains(words);
        scene.check(&format!("doctor: {check} is {level}"), well, found)?;
    }
    scene.machine.shell(&format!("systemctl stop {TIMER}"))?;
    let found = finding(&doctor(scene, 1)?, "systemd");
    let is_told = found.starts_with("warning") && found.contains("does not run:");
    scene.check("doctor: a timer that was stopped", is_told, found)?;
    scene.machine.shell(&format!("systemctl start {TIMER}"))?;
    Ok(())
}

/// What it finds, for machines; for people it must be the same.
fn doctor(scene: &mut Scene<'_>, status: i32) -> Outcome<Value> {
    let limit = Duration::from_secs(30);
    let (code, text) = scene.machine.run(&[DRIVER, "doctor", "--json"], limit)?;
    let (code_of_text, for_people) = scene.machine.run(&[DRIVER, "doctor"], limit)?;
    let told: Value = serde_json::from_str(&text).unwrap_or_default();
    let findings = told["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_shown = |one: &Value| {
        let begin = format!("{:<8} {} ", one["level"].as_str()?, one["check"].as_str()?);
        for_people.lines().any(|line| line.starts_with(&begin)).then_some(())
    };
    let same = !findings.is_empty() && findings.iter().all(|one| is_shown(one).is_some());
    let bad: Vec<String> = findings
        .iter()
        .filter(|one| one["level"] != "ok")
        .map(|one| format!("{} {}: {}", one["level"], one["check"], one["found"]))
        .collect();
    let well = same && code == Some(status) && code_of_text == Some(status);
    let saw = format!("{code:?} {code_of_text:?} {}", bad.join("; "));
    scene.check(&format!("disk doctor, as text and as JSON, ends with {status}"), well, saw)?;
    Ok(told)
}

/// A finding in words.
fn finding(told: &Value, check: &str) -> String {
    let findings = told["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = findings.iter().find(|one| one["check"] == check);
    let words = |one: &Value| {
        format!("{} {}", one["level"].as_str().unwrap_or("?"), one["found"].as_str().unwrap_or("?"))
    };
    found.map_or_else(|| "no such finding".to_owned(), words)
}
