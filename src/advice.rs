//! What the driver advises, as this program's command lines.

use crate::model::advice::Remedy;

/// The command line that does it.
#[must_use]
pub fn command(remedy: &Remedy, volume: Option<&str>) -> String {
    let named = |words: &str, unknown: &str| match volume.unwrap_or(unknown) {
        "" => words.to_owned(),
        volume => format!("{words} {volume}"),
    };
    match remedy {
        Remedy::Adopt => named("disk heal --adopt", ""),
        Remedy::Detach(None) => named("disk detach", ""),
        Remedy::Detach(Some(server)) => format!("{} {server}", named("disk detach", "")),
        Remedy::DetachById { from, called } => {
            let id = volume.unwrap_or("<volume id>");
            let node = from.as_deref().unwrap_or("<node>");
            let name = called.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
            format!("disk detach id:{id} {node}{name}")
        }
        Remedy::DetachByForce => named("disk detach --force", ""),
        Remedy::Doctor { as_root } => format!("{}disk doctor", sudo(*as_root)),
        Remedy::EndHolders => format!("{} --dry-run", named("disk heal --end-holders", "")),
        Remedy::EndUsers => named("disk release --end-users", "<volume>"),
        Remedy::Explain { as_root } => sudo(*as_root).to_owned() + &named("disk explain", ""),
        Remedy::Format => named("disk format", ""),
        Remedy::FormatAtOnce => format!("{} --yes", named("disk format", "VOLUME")),
        Remedy::Heal => named("disk heal", ""),
        Remedy::History => named("disk history", ""),
        Remedy::Holders => named("disk holders", ""),
        Remedy::KeepFileSystem(uuid) => format!("{} --keep {uuid}", named("disk format", "")),
        Remedy::ListVolumes => "disk local list".to_owned(),
        Remedy::Release => named("disk release", ""),
    }
}

fn sudo(as_root: bool) -> &'static str {
    if as_root { "sudo " } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_is_a_command_line() {
        let by_id = |from: Option<&str>, called: Option<&str>| {
            let (from, called) = (from.map(str::to_owned), called.map(str::to_owned));
            Remedy::DetachById { from, called }
        };
        for (remedy, volume, line) in [
            (Remedy::Adopt, Some("v"), "disk heal --adopt v"),
            (Remedy::Detach(None), Some("pv"), "disk detach pv"),
            (Remedy::Detach(Some("s".to_owned())), Some("v"), "disk detach v s"),
            (by_id(None, None), Some("v"), "disk detach id:v <node>"),
            (by_id(Some("n"), None), Some("v"), "disk detach id:v n"),
            (by_id(None, Some("pv")), Some("v"), "disk detach id:v <node> pv"),
            (by_id(None, None), None, "disk detach id:<volume id> <node>"),
            (Remedy::DetachByForce, Some("v"), "disk detach --force v"),
            (Remedy::DetachByForce, None, "disk detach --force"),
            (Remedy::Doctor { as_root: false }, None, "disk doctor"),
            (Remedy::Doctor { as_root: true }, None, "sudo disk doctor"),
            (Remedy::EndHolders, Some("v"), "disk heal --end-holders v --dry-run"),
            (Remedy::EndUsers, Some("v"), "disk release --end-users v"),
            (Remedy::EndUsers, None, "disk release --end-users <volume>"),
            (Remedy::Explain { as_root: false }, None, "disk explain"),
            (Remedy::Explain { as_root: true }, Some("v"), "sudo disk explain v"),
            (Remedy::Format, Some("v"), "disk format v"),
            (Remedy::FormatAtOnce, None, "disk format VOLUME --yes"),
            (Remedy::Heal, None, "disk heal"),
            (Remedy::History, Some("v"), "disk history v"),
            (Remedy::Holders, Some("v"), "disk holders v"),
            (Remedy::KeepFileSystem("u".to_owned()), Some("v"), "disk format v --keep u"),
            (Remedy::ListVolumes, None, "disk local list"),
            (Remedy::Release, Some("v"), "disk release v"),
        ] {
            assert_eq!(command(&remedy, volume), line, "{remedy:?}");
        }
    }
}
