//! What the driver advises, as this program's command lines.

use crate::model::advice::Remedy;

/// The command line that does it.
pub fn command(remedy: &Remedy, volume: &str) -> String {
    let or = |unknown| if volume.is_empty() { unknown } else { volume };
    let line = match remedy {
        Remedy::Adopt => format!("heal --adopt {volume}"),
        Remedy::Detach(server) => {
            format!("detach {volume} {}", server.as_deref().unwrap_or_default())
        }
        Remedy::DetachById(node, name) => {
            let (node, name) =
                (node.as_deref().unwrap_or("<node>"), name.as_deref().unwrap_or_default());
            format!("detach id:{} {node} {name}", or("<volume id>"))
        }
        Remedy::DetachByForce => format!("detach --force {volume}"),
        Remedy::Doctor | Remedy::DoctorAsRoot => "doctor".to_owned(),
        Remedy::EndHolders => format!("heal --end-holders {volume} --dry-run"),
        Remedy::EndUsers => format!("release --end-users {}", or("<volume>")),
        Remedy::Explain | Remedy::ExplainAsRoot => format!("explain {volume}"),
        Remedy::Format => format!("format {volume}"),
        Remedy::FormatAtOnce => format!("format {} --yes", or("VOLUME")),
        Remedy::Heal => format!("heal {volume}"),
        Remedy::History => format!("history {volume}"),
        Remedy::Holders => format!("holders {volume}"),
        Remedy::KeepFileSystem(uuid) => format!("format {volume} --keep {uuid}"),
        Remedy::ListVolumes => "local list".to_owned(),
        Remedy::Release => format!("release {volume}"),
    };
    let is_roots = matches!(remedy, Remedy::DoctorAsRoot | Remedy::ExplainAsRoot);
    format!("{}disk {}", if is_roots { "sudo " } else { "" }, line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_is_a_command_line() {
        let by_id = |from: Option<&str>, called: Option<&str>| {
            let (from, called) = (from.map(str::to_owned), called.map(str::to_owned));
            Remedy::DetachById(from, called)
        };
        for (remedy, volume, line) in [
            (Remedy::Adopt, "v", "disk heal --adopt v"),
            (Remedy::Detach(None), "pv", "disk detach pv"),
            (Remedy::Detach(Some("s".to_owned())), "v", "disk detach v s"),
            (by_id(None, None), "v", "disk detach id:v <node>"),
            (by_id(Some("n"), None), "v", "disk detach id:v n"),
            (by_id(None, Some("pv")), "v", "disk detach id:v <node> pv"),
            (by_id(None, None), "", "disk detach id:<volume id> <node>"),
            (Remedy::DetachByForce, "v", "disk detach --force v"),
            (Remedy::DetachByForce, "", "disk detach --force"),
            (Remedy::Doctor, "", "disk doctor"),
            (Remedy::DoctorAsRoot, "", "sudo disk doctor"),
            (Remedy::EndHolders, "v", "disk heal --end-holders v --dry-run"),
            (Remedy::EndUsers, "v", "disk release --end-users v"),
            (Remedy::EndUsers, "", "disk release --end-users <volume>"),
            (Remedy::Explain, "", "disk explain"),
            (Remedy::ExplainAsRoot, "v", "sudo disk explain v"),
            (Remedy::Format, "v", "disk format v"),
            (Remedy::FormatAtOnce, "", "disk format VOLUME --yes"),
            (Remedy::Heal, "", "disk heal"),
            (Remedy::History, "v", "disk history v"),
            (Remedy::Holders, "v", "disk holders v"),
            (Remedy::KeepFileSystem("u".to_owned()), "v", "disk format v --keep u"),
            (Remedy::ListVolumes, "", "disk local list"),
            (Remedy::Release, "v", "disk release v"),
        ] {
            assert_eq!(command(&remedy, volume), line, "{remedy:?}");
        }
    }
}
