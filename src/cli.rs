//! `argv` -> what is wanted: a call of kubelet, or a verb of a person.
//!
//! Call words are kubelet's and answer JSON, always. Verbs and `--help` are people's and answer
//! text; clap reads those.

pub mod arguments;
pub mod generate;
pub mod views;

pub use self::arguments::{NodeNameArgument, TypedVolume, VolumeIdArgument};

use crate::flexvolume::call;
use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// What the command line asks for.
#[derive(Debug)]
pub enum Wanted {
    /// One call of the volume plugin interface: the word and its arguments.
    Call {
        /// The word, possibly one that we do not know.
        word: String,
        /// The rest.
        arguments: Vec<OsString>,
        /// Whether a person at a terminal wants the JSON that kubelet reads.
        wants_json: bool,
    },
    /// Nothing was said, and it is no terminal: an error in JSON.
    Nothing,
    /// Text that clap made: help, version, or what is wrong with a verb.
    Text {
        /// The text.
        text: String,
        /// Whether it is an error.
        is_error: bool,
    },
    /// A person's verb.
    Verb(Verb),
}

/// What people can ask for on the command line.
#[derive(Debug, Parser)]
#[command(name = "disk", version = crate::VERSION, about = ABOUT, disable_help_subcommand = true, after_help = AFTER_HELP)]
struct Line {
    #[command(subcommand)]
    verb: Verb,
}

const ABOUT: &str = "Kubernetes FlexVolume driver for cloud block disks";

const AFTER_HELP: &str = "\
Calls of kubelet and the controller-manager (each answers one line of JSON):
  init | attach JSON NODE | isattached JSON NODE | waitforattach DEVICE JSON
  mountdevice DIR DEVICE JSON | mount DIR JSON | unmount DIR | unmountdevice DIR
  detach NAME [NODE] | detach id:VOLUMEID NODE [NAME] | expandfs JSON DEVICE DIR NEW OLD
NODE is the name of a node in Kubernetes. `detach` without NODE, or with 1 in its place, detaches
from this machine. DEVICE is a hint and may be \"\". On a terminal a call prints a message, and exits
with 1 if it failed; with --json it prints the JSON.

Configuration: $INCLOUD_DISK_CONFIG, /etc/incloud-disk/config.toml,
  or .config.toml beside this executable; the first that is there.";

const LOCAL: &str = "\
Examples:
  disk local create orders --size 1G
  disk local list
  disk local yank orders";

const CREATE: &str = "\
Examples:
  disk local create orders --size 1G
  disk local create orders-2 --size 512M --name 'orders of the shop'
  disk local create orders-copy --from orders";

const LIST: &str = "\
Examples:
  disk local list";

const DELETE: &str = "\
Examples:
  disk local delete orders";

const YANK: &str = "\
Examples:
  disk local yank orders && disk status";

const NODE: &str = "\
Words:
  install   [--cloud local|openstack | --config FILE | --cloud-config FILE] [--replace-config]
            [--plugin-dir DIR] [--kubelet-root DIR] [--binary FILE] [--although-not-ready]
            [--dry-run]
  upgrade   the same, where it is installed already
  rollback  [--plugin-dir DIR] [--to predecessor|1|2|3] [--dry-run]
  verify    [--plugin-dir DIR]
  uninstall [--plugin-dir DIR] [--dry-run] [--purge]
  status, explain, history, holders, doctor, report: as without `node`, but of the machine whose
            root is mounted here: for `kubectl exec` into a pod of the DaemonSet
  servers   [FILE]: makes [node.servers] from `kubectl get nodes -o json` on stdin or in the file, by
            providerID, else by systemUUID, and checks each against the cloud

--config FILE is tried, and installed for root alone; --cloud-config FILE: one that names this
cloud.conf. --replace-config: in place of another one that is there, which is kept.
Another maker's driver is replaced only if this one reaches the cloud and knows each volume that is
mounted; --although-not-ready: in any case, and until that is right no volume is attached, mounted
or unmounted on this machine. rollback --to predecessor puts that driver back, whatever was
installed since; 1, 2 and 3 are the last ones of ours. The exit status of install and rollback is 0
when the driver is in its place; whether it is well their last line says, and disk doctor.

Without --binary this executable is what is installed. With DESTDIR set, all is below that folder, but
for a --plugin-dir. install.sh calls this, and needs the line of these words to know that it can.

Examples:
  disk node --root / install --cloud openstack
  disk node install --config /root/incloud-disk.toml --dry-run
  disk node --every 300 verify
  disk node --root /host status";

const DETACH_USAGE: &str = "\
disk detach --force [--dry-run] <VOLUME> [NODE]
       disk detach <NAME> [NODE]";

const DETACH: &str = "\
Without --force this is kubelet's own call: `disk detach NAME [NODE]` detaches only what is safe to
detach. NODE is the node to detach from, by its name in Kubernetes; without it, or with 1 in its
place (`disk detach NAME 1`), it is this machine. On a terminal it prints a message, and exits
with 1 if it failed (--json prints the JSON); elsewhere it prints one line of JSON and exits with 0.

With --force what the guard protects is given up. What has the volume open through a shield waits
for its disk then; once more, and it fails.

Examples:
  disk detach --force pvc-5d0a7c3e-21b4-4f0e-9a35-6f1d0c8b2e44 --dry-run
  disk detach --force 6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5 node-b";

const RELEASE_USAGE: &str = "\
disk release [--end-users] [--dry-run] <VOLUME>
       disk release --waits [--dry-run]";

const RELEASE: &str = "\
With --waits what waits for a disk that is gone fails (shield.mode), and so does what is asked of a
disk that goes later on, until its volume is mounted anew.

Examples:
  disk release pvc-5d0a7c3e-21b4-4f0e-9a35-6f1d0c8b2e44 --dry-run
  disk release 6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5
  disk release --end-users 6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5 --dry-run
  disk release --waits";

const HEAL: &str = "\
The exit status:
  0  no mount stands on a lost disk any more, or it was a plan
  1  something could not be done
  3  a volume's disk is not here, and its mounts wait for it
  4  mounts or open files stay on a lost disk until their process ends, also after an earlier heal
Of several volumes the worst counts: 1, then 4, then 3.

Examples:
  disk heal pvc-5d0a7c3e-21b4-4f0e-9a35-6f1d0c8b2e44 --dry-run
  disk heal 6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5
  disk heal --end-holders 6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5 --dry-run
  disk heal --dry-run
  disk heal --device /dev/vdd
  disk heal --watch";

const FORMAT: &str = "\
Examples:
  disk format pvc-5d0a7c3e-21b4-4f0e-9a35-6f1d0c8b2e44
  disk format 6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5 --fs-type xfs --yes
  disk format pvc-5d0a7c3e-21b4-4f0e-9a35-6f1d0c8b2e44 --keep 0b5c3f0e-9a7d-4f5e-8d4b-1f2a3b4c5d6e";

/// What people can ask for.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// What changes nothing.
    #[command(flatten)]
    Look(views::Looking),
    /// The embedded local cloud: volumes on loop devices of this machine
    #[command(subcommand, after_help = LOCAL)]
    Local(LocalVerb),
    /// Detach a volume although it is in use: its mounts die with it
    #[command(after_help = DETACH, override_usage = DETACH_USAGE)]
    Detach {
        /// What the guard protects is given up
        #[arg(long, required = true)]
        force: bool,
        /// The volume: an id, a name, a pod or a device, or how an id or name begins
        volume: TypedVolume,
        /// The node; this machine if not given
        node: Option<NodeNameArgument>,
        /// Only say what would break
        #[arg(long)]
        dry_run: bool,
    },
    /// Unmount a volume everywhere on this machine although pods use it
    #[command(after_help = RELEASE, override_usage = RELEASE_USAGE)]
    Release {
        /// The volume: an id, a name, a pod or a device, or how an id or name begins
        #[arg(required_unless_present = "waits")]
        volume: Option<TypedVolume>,
        /// Unmount nothing: end processes of ordinary users, outside of pods, that use it
        #[arg(long)]
        end_users: bool,
        /// Unmount nothing: end all waits for disks on this machine, as its shutdown does
        #[arg(long, conflicts_with_all = ["volume", "end_users"])]
        waits: bool,
        /// Only say what would break
        #[arg(long)]
        dry_run: bool,
    },
    /// Put mounts of a volume's dead disk right: onto the disk that came back
    #[command(after_help = HEAL)]
    Heal {
        /// The volume (id, name, pod or device); without one all, as heal.mode says
        volume: Option<TypedVolume>,
        /// The volume whose disk this is; a disk of no volume is left alone
        #[arg(long, value_name = "NODE", conflicts_with = "volume")]
        device: Option<PathBuf>,
        /// Stay, and look again with every disk that comes, and each minute
        #[arg(long, conflicts_with_all = ["volume", "device", "dry_run"])]
        watch: bool,
        /// Also mounts that this driver did not make, whose disk died before it came
        #[arg(long, requires = "volume")]
        adopt: bool,
        /// Then end processes of pods that have files of the lost disk open
        #[arg(long, requires = "volume")]
        end_holders: bool,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Install, upgrade, roll back, verify or uninstall the driver on a machine
    #[command(after_help = NODE)]
    Node {
        /// The machine's root; /host if a machine's is mounted there, else /
        #[arg(long)]
        root: Option<PathBuf>,
        /// Again each so many seconds, and say what is new
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
        every: Option<u64>,
        /// The word and its options
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Show what is on a volume's disk; with --yes lose all of it and make a new file system
    #[command(after_help = FORMAT)]
    Format {
        /// The volume: an id, a name, a pod or a device, or how an id or name begins
        volume: TypedVolume,
        /// The new file system: ext3, ext4, xfs or btrfs
        #[arg(long, default_value = "ext4")]
        fs_type: String,
        /// Options for it, as in the volume's mkfsOptions
        #[arg(long, default_value = "", allow_hyphen_values = true)]
        mkfs_options: String,
        /// Do it; without this nothing is changed
        #[arg(long)]
        yes: bool,
        /// Accept the file system that is there at the next mount
        #[arg(long, value_name = "UUID", conflicts_with = "yes")]
        keep: Option<String>,
    },
}

/// What people can ask of the local cloud.
#[derive(Debug, Subcommand)]
pub enum LocalVerb {
    /// Make a volume
    #[command(after_help = CREATE)]
    Create {
        /// The volume's id: letters, digits, dots, dashes, underscores
        id: VolumeIdArgument,
        /// Its size, such as 512M, 1G or a number of bytes
        #[arg(long, value_parser = parse_size, required_unless_present = "from",
              allow_hyphen_values = true)]
        size: Option<u64>,
        /// Another volume whose data it begins with
        #[arg(long, value_name = "ID", conflicts_with = "size")]
        from: Option<VolumeIdArgument>,
        /// Its name in the cloud
        #[arg(long)]
        name: Option<String>,
    },
    /// Show all volumes
    #[command(after_help = LIST)]
    List,
    /// Remove a volume that is attached nowhere
    #[command(after_help = DELETE)]
    Delete {
        /// The volume's id
        id: VolumeIdArgument,
    },
    /// Pull a volume's disk by surprise: the file system on it dies
    #[command(after_help = YANK)]
    Yank {
        /// The volume: an id, a name or a device, or how an id or name begins
        volume: TypedVolume,
    },
}

/// Reads the arguments after the program's name. Whether stdout is a terminal is asked where it matters: not for
/// a word of kubelet's.
pub fn read(arguments: Vec<OsString>, stdout_is_terminal: impl Fn() -> bool) -> Wanted {
    let Some(first) = arguments.first() else {
        return if stdout_is_terminal() { clap_reads(&["--help".into()]) } else { Wanted::Nothing };
    };
    let word = first.to_string_lossy().into_owned();
    let is_verb = Verb::has_subcommand(&word) || word.starts_with('-') || word == "help";
    // `detach` is kubelet's word too; what it names never begins with a dash.
    let has = |flag: &str| arguments.iter().any(|one| one == flag);
    let is_by_hand = word == "detach" && (has("--force") || has("--help"));
    let is_call = call::WORDS.contains(&word.as_str());
    if is_call && !is_verb && has("--help") && stdout_is_terminal() {
        return clap_reads(&["--help".into()]);
    }
    // kubelet has no terminal: there an unknown word is a person's, who misspelt it.
    if is_verb && is_by_hand || !is_call && (is_verb || stdout_is_terminal()) {
        if word == "help" {
            let verb = arguments.into_iter().skip(1);
            return clap_reads(&verb.chain(["--help".into()]).collect::<Vec<_>>());
        }
        return clap_reads(&arguments);
    }
    let wants_json = has("--json");
    let arguments = arguments.into_iter().skip(1).filter(|one| one != "--json").collect();
    Wanted::Call { word, arguments, wants_json }
}

fn clap_reads(arguments: &[OsString]) -> Wanted {
    // kubelet's words are no verbs, and may be meant.
    let is_other =
        |word: &&str| !Verb::has_subcommand(word) && arguments.first() != Some(&word.into());
    let calls = call::WORDS.into_iter().filter(is_other).map(|word| Command::new(word).hide(true));
    let read = Line::command()
        .subcommands(calls)
        .try_get_matches_from(std::iter::once(&OsString::from("disk")).chain(arguments))
        .and_then(|matches| Line::from_arg_matches(&matches));
    match read {
        Ok(line) => Wanted::Verb(line.verb),
        Err(error) => Wanted::Text { text: error.to_string(), is_error: error.use_stderr() },
    }
}

/// `1G` and its like: powers of 1024, as people mean them of disks.
fn parse_size(text: &str) -> std::result::Result<u64, String> {
    const SECTOR: u64 = 512;
    const TRY: &str = "try 512M, 1G or a number of bytes";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].trim_end_matches(['i', 'B']).to_ascii_uppercase();
    let shift = match unit.as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ if digits.is_empty() => return Err(format!("no size; {TRY}")),
        _ => return Err(format!("{unit:?} is no unit: K, M, G and T are; {TRY}")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("no whole number; {TRY}"))?;
    let bytes = number.checked_mul(1 << shift).ok_or("too large")?;
    if bytes == 0 || bytes % SECTOR != 0 {
        return Err(format!("a disk has whole sectors of {SECTOR} bytes, and not 0; {TRY}"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_words(words: &[&str], terminal: bool) -> Wanted {
        read(words.iter().map(Into::into).collect(), || terminal)
    }

    #[test]
    fn call_words_are_calls_whatever_follows() {
        for words in
            [&["init"][..], &["attach", "--help"], &["detach", "-x"], &["frobnicate"], &[""]]
        {
            assert!(matches!(read_words(words, false), Wanted::Call { .. }), "{words:?}");
        }
        assert!(matches!(read_words(&["init"], true), Wanted::Call { .. }));
    }

    #[test]
    fn people_get_text() {
        for words in [&["--help"][..], &["help"], &["--version"], &["-h"], &["local", "--help"]] {
            assert!(
                matches!(read_words(words, false), Wanted::Text { is_error: false, .. }),
                "{words:?}"
            );
        }
        for words in
            [&["local"][..], &["local", "create"], &["--nonsense"], &["local", "yank", "../x"]]
        {
            assert!(
                matches!(read_words(words, false), Wanted::Text { is_error: true, .. }),
                "{words:?}"
            );
        }
        assert!(matches!(read_words(&["local", "list"], false), Wanted::Verb(_)));
    }

    #[test]
    fn a_misspelt_verb_is_told_only_to_people() {
        let Wanted::Text { text, is_error: true } = read_words(&["statuss"], true) else {
            panic!("kubelet's answer for a person")
        };
        assert!(text.contains("unrecognized subcommand 'statuss'"), "{text}");
    }

    #[test]
    fn what_is_misspelt_has_its_neighbour_proposed() {
        for (words, near) in [
            (&["statsu"][..], "exists: 'status'"),
            (&["detahc", "x"], "'detach'"),
            (&["atach"], "'attach'"),
            (&["local", "creat"], "exists: 'create'"),
            (&["release", "--dryrun", "x"], "exists: '--dry-run'"),
        ] {
            let Wanted::Text { text, is_error: true } = read_words(words, true) else {
                panic!("{words:?}")
            };
            assert!(text.contains(near), "{words:?}: {text}");
        }
        let Wanted::Text { text, .. } = read_words(&["xyzzy"], true) else { panic!() };
        assert!(!text.contains("tip:"), "{text}");
    }

    #[test]
    fn help_of_a_verb_is_that_verbs() {
        for (words, usage) in [
            (&["help"][..], "Usage: disk <COMMAND>"),
            (&["help", "detach"], "Usage: disk detach --force [--dry-run] <VOLUME> [NODE]"),
            (&["detach", "--help"], "disk detach <NAME> [NODE]"),
            (&["help", "local", "create"], "Usage: disk local create"),
        ] {
            let Wanted::Text { text, is_error: false } = read_words(words, true) else {
                panic!("{words:?}")
            };
            assert!(text.contains(usage), "{words:?}: {text}");
        }
        assert!(matches!(
            read_words(&["help", "nonsense"], true),
            Wanted::Text { is_error: true, .. }
        ));
    }

    #[test]
    fn silence_is_answered_by_help_only_to_people() {
        assert!(matches!(read_words(&[], true), Wanted::Text { is_error: false, .. }));
        assert!(matches!(read_words(&[], false), Wanted::Nothing));
    }

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [("1G", 1 << 30), ("512MiB", 512 << 20), ("1024", 1024), ("2k", 2048)]
        {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "G", "0", "1", "-1G", "1X", "99999999999T", "1.5G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
