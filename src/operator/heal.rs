//! `disk heal`: what the calls do by themselves, by hand and with the plan first.

use super::sweep::{HELD, WAITS};
use super::switched::{IS_BACK, notes, word};
use super::terminal::{hanging, told};
use crate::driver::Context;
use crate::driver::heal::outcome::HealProgress;
use crate::driver::heal::{self, adopt};
use crate::driver::report::survey;
use crate::model::advice::Remedy;
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::policy::HealMode;
use crate::model::report::health::{Health, Verdict};
use crate::model::text::several;

/// What a person asks for beside the heal itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct HealRequest {
    pub(super) adopt: bool,
    /// End the processes that have files of the lost disk open.
    pub(super) end_holders: bool,
    pub(super) dry_run: bool,
}

/// Heals one volume; `status` is the exit status, if it is neither done nor failed.
pub(super) fn run(
    cx: &Context<'_>,
    id: &VolumeId,
    request: HealRequest,
    status: &mut u8,
) -> Result<String> {
    let HealRequest { adopt, end_holders, dry_run } = request;
    let mode = if dry_run { HealMode::Report } else { HealMode::Auto };
    let mut text = String::new();
    let mut adopts = false;
    if adopt {
        let numbers = adopt::adopt_dead(cx, id, mode)?;
        adopts = !numbers.is_empty();
        let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        let numbers = if numbers.is_empty() { "no mount".to_owned() } else { numbers.join(", ") };
        let adopted = if dry_run { "would be adopted and healed" } else { "adopted" };
        text += &told(&format!("{adopted}, of dead disks: {numbers}"));
    }
    let healed = heal::heal_by_hand(cx, id, mode)?;
    if healed.progress == HealProgress::Resumed {
        text += &told(IS_BACK);
    }
    for (place, done) in &healed.places {
        text += &told(place);
        for one in done {
            let target = one.mount.target.display();
            text += &told(&format!("  {:<12} {target}{}", word(one), notes(one)));
        }
    }
    let heading = if dry_run && !healed.is_waiting() { "would be healed:\n" } else { "left:\n" };
    if !healed.left.is_empty() {
        text += heading;
        for line in &healed.left {
            text += &told(&format!("  {line}"));
        }
    }
    if let Some(lost) = &healed.lost {
        text += &format!("may be lost:\n{}", told(&format!("  {lost}")));
    }
    if dry_run {
        if end_holders {
            text += &would_end(cx, id)?;
        }
        if text.is_empty() {
            return Ok(or_nothing(text));
        }
        let now = survey::verdict_here(cx, id).and_then(|now| now.consequence);
        let now = now.map(|now| hanging("now: ", &now, str::to_owned)).unwrap_or_default();
        let adopting = if adopt { "--adopt " } else { "" };
        let ending = if end_holders { "--end-holders " } else { "" };
        let command = format!(" To do it: disk heal {adopting}{ending}{id}");
        // While its disk is not here there is nothing to do yet.
        let is_plan = adopts
            || end_holders && !text.is_empty()
            || !healed.left.is_empty() && !healed.is_waiting();
        let command = if is_plan { &command } else { "" };
        return Ok(format!("{now}{text}Nothing was changed.{command}\n"));
    }
    let count = healed.still_there();
    if healed.is_waiting() {
        *status = WAITS;
    } else if count > 0 {
        *status = HELD;
        let left = several(count, "thing stays", "things stay");
        text += &told(&format!(
            "{left} on the lost disk, for the reasons above; the timer goes on with what can be moved"
        ));
    }
    let verdict = || survey::verdict_after_heal(cx, id).filter(|now| now.health.harms());
    let mut now = verdict();
    // A container that comes back must find mounts that are right.
    if end_holders && now.as_ref().is_some_and(|now| now.health == Health::HalfHealed) {
        for process in heal::end_holders(cx, id)? {
            text += &told(&format!("ended {process}"));
        }
        *status = 0;
        now = verdict();
    }
    if let Some(now) = now {
        text += &as_it_is_now(&now, id);
        // Mounts that no heal can move, as those of a btrfs, are no success; nor are files that an earlier heal left.
        let is_off = match now.health {
            Health::Stale | Health::Dead => true,
            Health::HalfHealed => {
                !heal::holders_of_lost(cx, id).is_ok_and(|holders| holders.is_empty())
            }
            _ => false,
        };
        if *status == 0 && is_off {
            *status = HELD;
        }
    }
    Ok(or_nothing(text))
}

/// Whom `--end-holders` would end.
fn would_end(cx: &Context<'_>, id: &VolumeId) -> Result<String> {
    let holders = heal::holders_of_lost(cx, id)?;
    let mut text: String =
        holders.iter().map(|process| told(&format!("would end {process}"))).collect();
    if !text.is_empty() {
        text += "kubelet then starts their containers again in place, on the mounts that are healed; \
                 heal.after = \"signal:TERM\" does the same after each heal\n";
    }
    Ok(text)
}

/// What status would say of it.
fn as_it_is_now(now: &Verdict, id: &VolumeId) -> String {
    let mut text = String::new();
    if let Some(consequence) = &now.consequence {
        text += &hanging("now: ", consequence, str::to_owned);
    }
    // The command that was just typed ends nothing.
    if now.command == Some(Remedy::Heal.of(id)) {
        let command = told(&format!("$ disk explain {id}"));
        return text + &told("to do: see why the heal left it as it is.") + &command;
    }
    if let Some(next) = &now.next {
        text += &hanging("to do: ", &format!("{next}."), str::to_owned);
    }
    let command = now.command.as_ref().map(|command| told(&format!("$ {command}")));
    text + &command.unwrap_or_default()
}

fn or_nothing(text: String) -> String {
    if text.is_empty() { "no mount of it stands on a dead disk\n".to_owned() } else { text }
}
