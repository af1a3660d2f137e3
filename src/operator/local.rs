//! `disk local …`: what a cloud's own console would do.

use super::naming;
use super::terminal::{printable, table_row, width_of};
use crate::cli::{LocalVerb, TypedVolume, VolumeIdArgument};
use crate::cloud::local::LocalCloud;
use crate::configuration::{CloudKind, Config};
use crate::model::error::{Error, Kind, Result};
use crate::model::ids::VolumeId;
use crate::model::known_volume::KnownVolume;
use crate::ports::clock::Deadline;
use crate::wiring;
use std::time::Duration;

/// A copy of a large image may take its time.
const PATIENCE: Duration = Duration::from_secs(300);

/// Does what the verb says; answers the text to print.
pub fn run(verb: LocalVerb, config: &Config) -> Result<String> {
    if let Some(other) = config.cloud.kind.filter(|kind| *kind != CloudKind::Local) {
        let name = other.name();
        return Err(Error::new(Kind::Config, format!("this machine is configured for {name}"))
            .hint("the local cloud needs [cloud] kind = \"local\""));
    }
    let devices = wiring::devices();
    let cloud = LocalCloud::new(&config.local.dir, &wiring::this_node(config)?, &devices)?;
    let deadline = Deadline::after(PATIENCE);
    match verb {
        LocalVerb::Create { id: VolumeIdArgument(id), from: Some(from), name, .. } => {
            let VolumeIdArgument(from) = from;
            let size = cloud.copy(&id, &from, name, deadline)?;
            Ok(format!("created {id} with {size} bytes, as a copy of {from}\n"))
        }
        LocalVerb::Create { id: VolumeIdArgument(id), size, name, from: None } => {
            // clap demands one of the two.
            let size = size.ok_or_else(|| Error::new(Kind::Bug, "a volume without a size"))?;
            cloud.create(&id, size, name, deadline)?;
            Ok(format!("created {id} with {size} bytes\n"))
        }
        LocalVerb::Delete { id: VolumeIdArgument(id) } => {
            cloud.delete(&id, deadline)?;
            Ok(format!("deleted {id}\n"))
        }
        LocalVerb::Yank { volume: TypedVolume(typed) } => {
            let id = volume_to_pull(&cloud, &typed)?;
            let pulled = cloud.yank(&id, deadline)?;
            let fate = if pulled.killed_file_system {
                "the file system on it is dead"
            } else {
                "no file system was mounted on it"
            };
            Ok(format!("pulled {} of {id}: {fate}\n", pulled.kernel_name))
        }
        LocalVerb::List => list(&cloud),
    }
}

/// The volume that was typed, among those of this cloud.
fn volume_to_pull(cloud: &LocalCloud<'_>, typed: &str) -> Result<VolumeId> {
    let mut known = Vec::new();
    for (file, view) in cloud.list()? {
        let names = view.name.into_iter().chain(view.recorded_name.map(String::from));
        known.push(KnownVolume {
            names: names.collect(),
            disk: cloud.disk(&file.id)?.map(|disk| disk.number),
            ..KnownVolume::of(file.id)
        });
    }
    naming::one_of(typed, &known)
}

fn list(cloud: &LocalCloud<'_>) -> Result<String> {
    let mut rows = vec![["ID", "SIZE", "NAME", "ATTACHED TO", "DISK"].map(str::to_owned)];
    for (file, view) in cloud.list()? {
        let servers: Vec<_> = view.attachments.iter().map(|a| a.server.to_string()).collect();
        let disk = cloud.disk(&file.id)?.map(|disk| disk.kernel_name);
        let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        rows.push([
            file.id.to_string(),
            size(view.size),
            or_dash(file.name.unwrap_or_default()),
            or_dash(servers.join(",")),
            or_dash(disk.unwrap_or_default()),
        ]);
    }
    Ok(aligned(&rows))
}

/// The shortest exact form: 1 GiB is `1G`, 1 GiB and one sector is a number of bytes.
fn size(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let exact = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    exact.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| width_of(&printable(&row[column]))).max();
    let widths: Vec<_> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    rows.iter().map(|row| table_row(row, &widths).trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_and_sizes_exact() {
        let rows = [["A", "LONG"], ["abc", "x"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows), "A    LONG\nabc  x\n");
        let rows = [["é\n", "1"], ["磁盘s", "2"], ["vol-1", "3"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows), "é\\n    1\n磁盘s  2\nvol-1  3\n");
        assert_eq!(
            (size(1 << 30), size(3 << 20), size(1025)),
            ("1G".into(), "3M".into(), "1025".into())
        );
    }
}
