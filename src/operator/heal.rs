//! `disk heal`: what the calls do by themselves, by hand and with the plan first.

use super::acting::volume_named;
use super::sweep::say;
use super::switched::{notes, word};
use super::terminal::told;
use crate::driver::Driver;
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeName;
use crate::model::mount::replacement::ReplacementOutcome;
use crate::model::policy::HealMode;

pub(super) fn run(
    driver: &Driver<'_>,
    name: &VolumeName,
    adopt: bool,
    dry_run: bool,
) -> Result<String> {
    let id = volume_named(driver, name)?;
    let mode = if dry_run { HealMode::Report } else { HealMode::Auto };
    let mut text = String::new();
    if adopt {
        let numbers = driver.adoption.adopt_dead(&id, mode)?;
        let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        let numbers = if numbers.is_empty() { "no mount".to_owned() } else { numbers.join(", ") };
        let adopted = if dry_run { "would be adopted and healed" } else { "adopted" };
        text += &told(&format!("{adopted}, of dead disks: {numbers}"));
    }
    let healed = driver.healing.heal_by_hand(&id, mode)?;
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
    let mounts = healed.places.iter().flat_map(|(_, done)| done);
    let skipped =
        mounts.filter(|one| matches!(one.outcome, ReplacementOutcome::Skipped(_))).count();
    let count = healed.left.len() + skipped;
    if !dry_run && !healed.is_waiting && count > 0 {
        // What was done is told, and what was not is no success.
        say(&text);
        return Err(Error::new(Kind::Busy, format!("{count} are left on a dead disk"))
            .hint("the reasons stand above; the next call and the timer go on with them"));
    }
    Ok(if text.is_empty() { "no mount of it stands on a dead disk\n".to_owned() } else { text })
}
