//! The verbs that look and change nothing.

use super::arguments::{Shell, TypedVolume};
use crate::host::zone::LOCAL;
use crate::model::timestamp::Millis;
use crate::ports::clock;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// What people can look at.
#[derive(Debug, Subcommand)]
pub enum Looking {
    /// Show every volume of this machine and how it is
    #[command(after_help = STATUS)]
    Status(StatusArguments),
    /// Show every fact about one volume, where it was read, and what to do
    #[command(after_help = EXPLAIN)]
    Explain(VolumeChoice),
    /// Tell what became of a volume or a pod, out of the log
    #[command(after_help = HISTORY)]
    History(HistoryArguments),
    /// Show who uses a volume: process, container, pod, and what it holds
    #[command(after_help = HOLDERS)]
    Holders(VolumeChoice),
    /// Look whether this machine is fit for the driver
    #[command(after_help = DOCTOR)]
    Doctor {
        /// Answer in JSON
        #[arg(long)]
        json: bool,
        /// Only this part: configuration, or takeover (from another maker's driver)
        #[arg(long, value_name = "PART", hide_possible_values = true)]
        only: Option<DoctorPart>,
    },
    /// Write all of that into one file to send to a colleague
    #[command(after_help = REPORT)]
    Report(ReportArguments),
    /// Print the names of this machine's volumes and pods, for completions
    #[command(hide = true, after_help = NAMES)]
    Names,
    /// Print the completions of a shell
    #[command(hide = true, after_help = COMPLETIONS)]
    Completions {
        /// bash, zsh or fish
        shell: Shell,
    },
    /// Print the manual page, or write those of all verbs into a folder
    #[command(hide = true, after_help = MAN)]
    Man {
        /// The folder
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
}

/// How the volumes are to be shown.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
    /// Look again every so many seconds, until it is ended
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub watch: Option<u64>,
    /// For a script: a line for each volume, its cells with tabs between them
    #[arg(long, conflicts_with_all = ["json", "watch", "check"])]
    pub rows: bool,
    /// For a monitor: one line, and an exit status
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    pub check: bool,
}

/// What an installation asks of the doctor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DoctorPart {
    /// The configuration as it is written, and which disks it leaves unused; the cloud is not asked
    Configuration,
    /// What a driver needs that takes the place of another maker's while volumes are mounted
    Takeover,
}

/// One volume.
#[derive(Debug, Args)]
pub struct VolumeChoice {
    /// The volume: an id, a name, a pod or a device, or how an id or name begins
    pub volume: TypedVolume,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// What is to be told.
#[derive(Debug, Args)]
pub struct HistoryArguments {
    /// The volume: an id, a name, a pod or a device; all if none is named
    pub volume: Option<TypedVolume>,
    /// Only what has to do with this pod: namespace/name, its name, or its UID
    #[arg(long, value_name = "POD", conflicts_with = "volume",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub pod: Option<String>,
    /// Only what happened since: 30m, 2h, 10:30, yesterday, or a moment (local)
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<Millis>,
    /// Take kubelet's log (klog) from this file, not the journal; repeatable
    #[arg(long, value_name = "FILE")]
    pub kubelet_log: Vec<PathBuf>,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// What is to be reported, and where to.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// The volume: an id, a name, a pod or a device; all if none is named
    pub volume: Option<TypedVolume>,
    /// What happened since: 30m, 10:30, yesterday, a moment (local); else a day
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<Millis>,
    /// Take kubelet's log (klog) from this file, not the journal; repeatable
    #[arg(long, value_name = "FILE")]
    pub kubelet_log: Vec<PathBuf>,
    /// The file, which must not be there yet; - writes to stdout
    #[arg(long, value_name = "FILE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub out: Option<String>,
    /// The text alone, without the page and its picture
    #[arg(long)]
    pub text: bool,
}

fn since(text: &str) -> Result<Millis, String> {
    LOCAL.since(text, clock::now()).ok_or_else(|| {
        "write 30m, 2h ago, 3d, 10:30, today, yesterday, last night, or 2026-11-21 03:50".to_owned()
    })
}

const STATUS: &str = "\
Health:
  ok           as it should be
  let-go       kubelet unmounted the folder of a pod that has the volume, or has forgotten it
  orphaned     kubelet unmounted it, left it attached to this node, and will not detach it
  guarded      a tear-down is asked for and refused: a pod still uses the volume
  leaked       only a mount namespace that no pod owns still has it
  unknown      what decides could not be seen: run it as root, or when the cloud answers
  half-healed  the mounts are right, but a process has files open on the disk that is gone
  stale        mounts stand on a disk that is gone, and its successor is there: disk heal
  dead         mounts stand on a disk that is gone, and there is no other
  covered      something is mounted over a mount of it: its path leads elsewhere
  ambiguous    which disk is the volume's, whose disk is mounted, or whether that will ever
               answer again, cannot be told

A cloud that does not answer within 3 seconds is \"unknown\"; that never means detached.

The exit status of --check: 0 nothing is harmed, 1 a volume is (half-healed and what is below it
in the list), 3 what decides could not be seen.

Examples:
  disk status
  disk status --watch
  disk status --check || echo 'see to it'
  disk status --json | jq -r '.volumes[] | select(.verdict.health != \"ok\") | .id'";

const EXPLAIN: &str = "\
Examples:
  disk explain pvc-5d0a7c3e-21b4-4f0e-9a35-6f1d0c8b2e44
  disk explain 6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5 --json";

const HISTORY: &str = "\
It is told out of the files in paths.log_dir; log.max_files says how many days are there.
What says the same again is counted with the first. Times are local, with their offset from UTC.

Rows:
  attach, mount, ...  calls, with how long they took
  heal, release, ...  what a person or the timer asked for
  healing, note       what a heal moved, and which writes may be lost
  kernel              what the kernel's log says of the disk, for root: removal, errors
  kubelet             what kubelet's own log says at that time, in quotation marks: about the
                      volume and its pods, its restarts, its failed requests to the API server;
                      the first sentence says who tore the volume down, and why
  older driver        what the driver before this one wrote, in quotation marks, not checked
  now                 a tear-down that is refused at this moment

Examples:
  disk history pvc-5d0a7c3e-21b4-4f0e-9a35-6f1d0c8b2e44
  disk history --pod shop/orders-0 --since 2h
  disk history orders-0 --since 'last night'
  disk history --since '2026-11-21 03:50' --json
  disk history orders-0 --kubelet-log /var/log/kubelet.log
  disk history orders-0 --kubelet-log kubelet.INFO.1 --kubelet-log kubelet.INFO.2";

const HOLDERS: &str = "\
What holds it: mount (in its mount namespace), file, map (in its memory), folder (its working
folder), root (its root folder), node (the disk's node is open), kernel (loop, swap, device mapper).
What is on a disk that is gone stays there until the process ends.

Examples:
  disk holders pvc-5d0a7c3e-21b4-4f0e-9a35-6f1d0c8b2e44
  disk holders 6f1c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e5 --json | jq -r '.holders[].process.pid'";

const DOCTOR: &str = "\
The exit status says the worst: 0 all is well, 1 a warning, 2 an error.
disk node install asks for one part: --only takeover before it replaces another maker's driver.

Examples:
  sudo disk doctor
  sudo disk doctor --only takeover
  sudo disk doctor --json | jq -r '.findings[] | select(.level != \"ok\") | .fix'";

const REPORT: &str = "\
The file is a page for any browser, or for a ticket: the verdict, a picture of each volume over
time, and what doctor, status, explain and history say. It loads nothing, and runs no script.

Passwords, tokens and credentials are left out. Names of nodes, pods and volumes, paths and
addresses are in it: look at it before you send it on. Only its owner may read it.

Examples:
  sudo disk report
  sudo disk report shop/orders-0 --since 'last night'
  sudo disk report --text --out - | less";

const NAMES: &str = "\
Examples:
  disk names";

const COMPLETIONS: &str = "\
Examples:
  disk completions bash > /etc/bash_completion.d/disk";

const MAN: &str = "\
Examples:
  disk man | man -l -
  disk man --out /usr/local/share/man/man8";
