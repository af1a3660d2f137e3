//! `disk heal`: what the calls do by themselves, by hand and with the plan first.

use super::sweep::{HELD, WAITS};
use super::switched::{IS_BACK, notes, word};
use super::terminal::{hanging, told};
use crate::driver::Driver;
use crate::model::error::Result;
use crate::model::ids::VolumeId;
use crate::model::policy::HealMode;
use crate::model::report::health::{Health, Verdict};
use crate::model::text::several;

/// Heals one volume; `status` is the exit status, if it is neither done nor failed.
pub(super) fn run(
    driver: &Driver<'_>,
    id: &VolumeId,
    (adopt, dry_run): (bool, bool),
    status: &mut u8,
) -> Result<String> {
    let mode = if dry_run { HealMode::Report } else { HealMode::Auto };
    let mut text = String::new();
    let mut adopts = false;
    if adopt {
        let numbers = driver.adoption.adopt_dead(id, mode)?;
        adopts = !numbers.is_empty();
        let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        let numbers = if numbers.is_empty() { "no mount".to_owned() } else { numbers.join(", ") };
        let adopted = if dry_run { "would be adopted and healed" } else { "adopted" };
        text += &told(&format!("{adopted}, of dead disks: {numbers}"));
    }
    let healed = driver.healing.heal_by_hand(id, mode)?;
    if healed.is_back {
        text += &told(IS_BACK);
    }
    for (place, done) in &healed.places {
        text += &told(place);
        for one in done {
            let target = one.mount.target.display();
            text += &told(&format!("  {:<12} {target}{}", word(one), notes(one)));
        }
    }
    let heading = if dry_run && !healed.is_waiting { "would be healed:\n" } else { "left:\n" };
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
        if text.is_empty() {
            return Ok(or_nothing(text));
        }
        let now = driver.surveying.verdict_here(id).and_then(|now| now.consequence);
        let now = now.map(|now| hanging("now: ", &now, str::to_owned)).unwrap_or_default();
        let adopting = if adopt { "--adopt " } else { "" };
        let command = format!(" To do it: disk heal {adopting}{id}");
        // While its disk is not here there is nothing to do yet.
        let is_plan = adopts || !healed.left.is_empty() && !healed.is_waiting;
        let command = if is_plan { &command } else { "" };
        return Ok(format!("{now}{text}Nothing was changed.{command}\n"));
    }
    let count = healed.still_there();
    if healed.is_waiting {
        *status = WAITS;
    } else if count > 0 {
        *status = HELD;
        let left = several(count, "thing stays", "things stay");
        text += &told(&format!(
            "{left} on the lost disk, for the reasons above; the timer goes on with what can be moved"
        ));
    }
    let now = driver.surveying.verdict_after_heal(id).filter(|now| now.health.harms());
    if let Some(now) = now {
        text += &as_it_is_now(&now, id);
        // Mounts that no heal can move, as those of a btrfs, are no success; nor are files that an earlier heal left.
        let is_off = matches!(now.health, Health::Stale | Health::Dead | Health::HalfHealed);
        if *status == 0 && is_off {
            *status = HELD;
        }
    }
    Ok(or_nothing(text))
}

/// What status would say of it.
fn as_it_is_now(now: &Verdict, id: &VolumeId) -> String {
    let mut text = String::new();
    if let Some(consequence) = &now.consequence {
        text += &hanging("now: ", consequence, str::to_owned);
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
    // The command that was just typed ends nothing.
    if now.command.as_ref() == Some(&format!("disk heal {id}")) {
        let command = told(&format!("$ disk explain {id}"));
        return text + &told("to do: see why the heal left it as it is.") + &command;
    }
