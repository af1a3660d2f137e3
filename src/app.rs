//! One call: words become an operation, and its result a reply.

use crate::channel::Channel;
use crate::configuration::{Config, Paths};
use crate::driver::attachment::detach::{self, Force};
use crate::driver::attachment::{attach, wait};
use crate::driver::mount::expand;
use crate::driver::mount::publish::{self, Publication};
use crate::driver::mount::stage::{self, StageOptions};
use crate::driver::{Context, Outcome, Volume, names};
use crate::flexvolume::answer::{self, Subject};
use crate::flexvolume::call::{About, Call};
use crate::flexvolume::folders::{self, Folder};
use crate::flexvolume::options::{AccessMode, Options};
use crate::flexvolume::reply::Reply;
use crate::host::metrics::Report;
use crate::host::records::RecordFiles;
use crate::host::worker::parent::Worker;
use crate::host::{self, machine, worker};
use crate::model::cloud::attachment_state::Sharing;
use crate::model::error::{Error, Kind, Result};
use crate::model::face::Faces;
use crate::model::ids::{ConsumerId, NodeName};
use crate::model::mount::layout::{PublishTarget, StagePlace, StageTarget};
use crate::model::record::VolumeRecord;
use crate::model::report::metrics::Sample;
use crate::ports::clock::Deadline;
use crate::ports::store::Records as _;
use crate::supervisor::{self, Answering};
use crate::wiring::{self, BESIDE, ETC, Setting, VARIABLE};
use crate::{failpoints, log};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What is known of a call while it is worked on, whatever becomes of it.
#[derive(Debug, Default)]
struct Notes {
    report: Option<Report>,
}

/// Whether a word is answered without a look at anything: no file is made for it, and no child.
pub fn is_constant(word: &str) -> bool {
    Call::is_constant(word)
}

/// Answers one call of kubelet, the controller-manager or a person; says whether the exit status is 0. It always
/// answers: the work is another process's, and if that does not come back this one answers for it.
pub fn answer(word: &str, arguments: &[OsString], channel: &Channel) -> bool {
    let parsed = catch_unwind(|| Call::parse(word, arguments)).unwrap_or_else(|_| Err(inside()));
    let object = parsed.as_ref().map(Call::object).unwrap_or_default();
    let subject = || {
        let call_id = log::new_call_id();
        Subject { action: shown(word).to_owned(), object, call_id }
    };
    if is_constant(word) {
        let constant = catch_unwind(|| {
            failpoints::step("call");
            match parsed? {
                Call::Init => Ok(Reply::capabilities()),
                _ => Ok(Reply::not_supported()),
            }
        });
        let reply = constant.unwrap_or_else(|_| Err(inside()));
        let reply = reply.unwrap_or_else(|error| subject().failure(&error));
        return answer::send(channel, &reply);
    }
    let (subject, reader) = (subject(), channel.reader());
    let begin = Instant::now();
    let do_it = || {
        let (reply, report) = work(word, parsed, &subject, begin);
        let _ = worker::out().write_all(answer::line_for(reader, &reply).as_bytes());
        // kubelet has its answer, and need not wait for this.
        if let Some(report) = report {
            report.write();
        }
        take_over_for_timer();
    };
    let answering = Answering {
        terminal: channel.terminal(),
        deliver: |worker: &mut Worker, line: &str| answer::deliver(channel, worker, line),
        fail: |error: &Error| answer::send(channel, &subject.failure(error)),
        given_up: |why: &Error| write_off(word, &subject, begin, why),
    };
    supervisor::call(answering, do_it)
}

/// Starts the timer's work where no timer runs: no call comes for a volume that kubelet has forgotten. The heal runs in
/// the background, because kubelet waits until the call's process has ended.
fn take_over_for_timer() {
    let Ok((config, _)) = load_config() else { return };
    let Paths { state_dir, run_dir, .. } = &config.paths;
    if host::sweeps::is_recent(run_dir) {
        return;
    }
    let (now, records) = (machine::uptime(), RecordFiles::below(state_dir, run_dir));
    let waits = |record: &VolumeRecord| record.waits_for_timer(&now);
    if !records.list().unwrap_or_default().iter().any(waits) {
        return;
    }
    if let Some(program) = executable() {
        let mut heal = Command::new(program);
        heal.arg("heal").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let _ = heal.process_group(0).spawn();
    }
}

/// The call itself.
fn work(
    word: &str,
    parsed: Result<Call>,
    subject: &Subject,
    begin: Instant,
) -> (Reply, Option<Report>) {
    let mut notes = Notes::default();
    let answered =
        catch_unwind(AssertUnwindSafe(|| call_driver(word, parsed, subject, begin, &mut notes)));
    let answered = answered.unwrap_or_else(|_| Err(inside()));
    let reply = answered.unwrap_or_else(|error| subject.failure(&error));
    (reply, notes.report)
}

fn inside() -> Error {
    Error::new(Kind::Bug, "the driver failed inside")
        .hint("its log has the details under the call's id")
}

/// What is written down of a call that was given up.
fn write_off(word: &str, subject: &Subject, begin: Instant, why: &Error) {
    let Ok((config, _)) = load_config() else { return };
    let _is_logged = log::start(&config);
    let _span = tracing::error_span!("call", id = subject.call_id, op = word).entered();
    let reply = subject.failure(why);
    let (status, answer) = (reply.status(), reply.message());
    tracing::error!(call = subject.call_id, reason = %why, status, answer, event = "call_failed", "end: given up");
    if let Some(mut report) = report(&config, word) {
        why.kind.word().clone_into(&mut report.sample.outcome);
        report.sample.seconds = begin.elapsed().as_secs_f64();
        report.write();
    }
}

/// The answer to no word at all.
pub fn answer_to_nothing() -> Reply {
    let error = Error::bad_call("called without a call word").hint("disk --help shows them");
    Reply::failure("", "disk", &error, &log::new_call_id())
}

/// A word of ours may stand in a message; anything else might be anything.
fn shown(word: &str) -> &str {
    if crate::flexvolume::call::WORDS.contains(&word) { word } else { "" }
}

fn call_driver(
    word: &str,
    parsed: Result<Call>,
    subject: &Subject,
    begin: Instant,
    notes: &mut Notes,
) -> Result<Reply> {
    failpoints::step("call");
    let (config, origin) = load_config()?;
    // From here on also what is done for the log counts.
    let deadline = config.deadline.of(word);
    worker::may_take(deadline);
    // Without a log the call goes on: it is worth more than its record.
    let _is_logged = log::start(&config);
    log_panics();
    // Every line of the call carries its id and word.
    let _span = tracing::error_span!("call", id = subject.call_id, op = word).entered();
    notes.report = report(&config, word);
    let object = subject.object.as_str();
    let pid = worker::waiting_process().unwrap_or_else(std::process::id);
    let parent = machine::parent_name();
    let About { volume, name, pod, pod_name, node, folder, device } =
        parsed.as_ref().map(Call::about).unwrap_or_default();
    let folder = folder.map(|folder| folder.display().to_string());
    tracing::info!(object, volume, name, pod, pod_name, node, folder, device, pid, parent, "begin");
    let mut sample = Sample::default();
    let answered = parsed.and_then(|call| {
        failpoints::step("begin");
        call.within(config.paths.kubelet_root.as_ref())?;
        let deadline = Deadline::after(deadline);
        let setting = Setting {
            region: call.region(),
            ..setting(&config, origin.as_deref(), word, deadline)
        };
        dispatch(&call, &setting, &mut sample)
    });
    if let Some(report) = &mut notes.report {
        let outcome = match &answered {
            Ok((_, Outcome::Done)) => "done",
            Ok((_, Outcome::Already)) => "already",
            Err(error) => error.kind.word(),
        };
        report.sample = Sample {
            operation: word.to_owned(),
            outcome: outcome.to_owned(),
            seconds: begin.elapsed().as_secs_f64(),
            id: report.sample.id.clone(),
            ..sample
        };
    }
    let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    match &answered {
        Ok((reply, outcome)) => {
            let (status, device) = (reply.status(), reply.given_device());
            tracing::info!(
                object,
                duration_ms,
                ?outcome,
                status,
                device,
                event = "call_done",
                "end: Success"
            );
        }
        // The guard has said it, and says it again when it is worth it.
        Err(error) if error.is_repeated => {
            tracing::debug!(object, duration_ms, kind = error.kind.word(), reason = %error, event = "call_failed", "end: Failure");
        }
        Err(error) => {
            let reply = subject.failure(error);
            let (status, answer) = (reply.status(), reply.message());
            tracing::error!(object, duration_ms, kind = error.kind.word(), reason = %error, status, answer, event = "call_failed", "end: Failure");
        }
    }
    answered.map(|(reply, _)| reply)
}

/// What a driver of this face is made for; of no region but the configured one.
pub fn setting<'a>(
    config: &'a Config,
    origin: Option<&'a Path>,
    operation: &'a str,
    deadline: Deadline,
) -> Setting<'a> {
    Setting {
        face: &FACE,
        faces: FACES,
        config,
        origin,
        trouble: None,
        operation,
        region: None,
        deadline,
        lock_patience: None,
    }
}

/// What the metrics are told if nothing else becomes of the call.
pub(crate) fn report(config: &Config, operation: &str) -> Option<Report> {
    let textfile = config.metrics.textfile.clone()?;
    let sample = Sample {
        id: log::new_call_id(),
        operation: operation.to_owned(),
        outcome: Kind::Bug.word().to_owned(),
        ..Sample::default()
    };
    Some(Report {
        textfile,
        state_dir: config.paths.state_dir.clone(),
        run_dir: config.paths.run_dir.clone(),
        words: FACE.words,
        version: crate::VERSION,
        sample,
    })
}

fn dispatch(call: &Call, setting: &Setting<'_>, sample: &mut Sample) -> Result<(Reply, Outcome)> {
    let config = setting.config;
    let (done, measured) = wiring::with_measured_context(setting, |cx| perform(call, config, cx));
    *sample = measured;
    done
}

/// kubelet attaches to its own node only. Where it calls that by another name than we do, and the names stand for two
/// servers, the disk would come to another machine than the one that waits for it.
fn must_be_kubelets_own(cx: &Context<'_>, node: &NodeName) -> Result<()> {
    let this_node = cx.this_node;
    if node == this_node || machine::parent_name() != "kubelet" {
        return Ok(());
    }
    let server = |node| cx.cloud.server(node, cx.deadline);
    match (server(node)?, server(this_node)?) {
        (Some(theirs), Some(own)) if theirs != own => Err(Error::refused(format!(
            "refusing to attach: kubelet calls this node {node}, which is server {theirs} in the cloud, and this \
             machine is {this_node}, server {own}"
        ))
        .hint(format!("set node.name = \"{node}\" in the configuration, and node.server_id if {own} is wrong"))),
        _ => Ok(()),
    }
}

fn perform(call: &Call, config: &Config, cx: &Context<'_>) -> Result<(Reply, Outcome)> {
    let plain = |outcome: Outcome| (Reply::success(), outcome);
    match call {
        Call::Attach { options, node } => {
            must_be_kubelets_own(cx, node)?;
            let (link, outcome) = attach::attach(cx, &volume(options), node, options.sharing)?;
            Ok((Reply::device(&link), outcome))
        }
        Call::Detach { name, id: None, node, .. } => {
            names::detach(cx, name, node.as_ref(), Force::No).map(plain)
        }
        Call::Detach { id: Some(id), node, settles, .. } => {
            let outcome = detach::detach(cx, id, node.as_ref(), Force::No)?;
            if let Some(name) = settles {
                names::settle_name(cx, id, name)?;
            }
            Ok(plain(outcome))
        }
        Call::IsAttached { options, node } => {
            let attached = attach::is_attached(cx, &volume(options), node)?;
            Ok((Reply::attached(attached), Outcome::Already))
        }
        Call::WaitForAttach { device, options } => {
            let place = stage_place(options, config);
            let path = wait::wait_for_disk(cx, &volume(options), device, &place, options.sharing)?;
            Ok((Reply::device(&path), Outcome::Already))
        }
        Call::MountDevice { folder, device, options } => {
            let stage_options = stage_options(options)?;
            stage::stage(
                cx,
                &volume(options),
                &StageTarget(folder.target.clone()),
                &stage_options,
                device,
            )
            .map(plain)
        }
        Call::UnmountDevice { folder } => {
            let target = StageTarget(folder.target.clone());
            names::unstage(cx, &folder.name, &target).map(plain)
        }
        Call::Mount { folder, pod, options } => {
            let stage_options = &stage_options(options)?;
            let publication = Publication {
                target: &publish_target(pod, folder),
                label: options.pod.as_deref(),
                stage: &StageTarget(folders::global_of(folder)),
                stage_options,
                read_only: options.access == AccessMode::ReadOnly,
            };
            publish::publish(cx, &volume(options), &publication).map(plain)
        }
        Call::Unmount { folder, pod } => {
            let target = publish_target(pod, folder);
            names::unpublish(cx, &folder.name, &target).map(plain)
        }
        Call::ExpandFs { options, device, folder, bytes } => {
            expand::expand(cx, &volume(options), &folder.target, *bytes, device).map(plain)
        }
        Call::Init | Call::NotSupported => Ok((Reply::not_supported(), Outcome::Already)),
    }
}

fn publish_target(consumer: &ConsumerId, folder: &Folder) -> PublishTarget {
    PublishTarget { consumer: consumer.clone(), folder: folder.target.clone() }
}

fn volume(options: &Options) -> Volume {
    Volume::new(options.volume.clone(), options.name.clone())
}

fn stage_options(options: &Options) -> Result<StageOptions> {
    Ok(StageOptions {
        mount_options: options.mount_options.clone(),
        mkfs_options: options.mkfs_options.clone(),
        untouched: options.sharing == Sharing::ReadOnly,
        shield: options.shield,
        ..StageOptions::for_file_system(&options.fs_type)?
    })
}

fn stage_place(options: &Options, config: &Config) -> StagePlace {
    let name = options.name.clone().unwrap_or_else(|| options.volume.as_name());
    StagePlace { root: config.paths.kubelet_root.clone(), below: folders::global_below(&name) }
}

/// What calls, and what people's verbs speak of.
pub use crate::flexvolume::FACE;

/// All faces of the driver.
pub const FACES: Faces = Faces(&[FACE]);

/// The configuration and the file that it came from; the defaults if there is no file.
///
/// A file beside the executable is the one that a controller-manager's container has: only the
/// plugin folder is mounted there, and hidden files in it are not taken for drivers.
pub fn load_config() -> Result<(Config, Option<PathBuf>)> {
    let is_named = named_configuration().is_some();
    for path in configuration_places() {
        match host::files::read_if_there(&path) {
            Ok(Some(text)) => {
                let config = Config::parse(&text, &path.display().to_string())?;
                return Ok((config, Some(path)));
            }
            Ok(None) if is_named => {
                return Err(Error::new(Kind::Config, format!("{} is not there", path.display()))
                    .hint(format!("{VARIABLE} names it")));
            }
            Ok(None) => {}
            Err(error) => {
                let error = Error { kind: Kind::Config, ..error };
                let is_for_root = error.is_denied() && !machine::is_root();
                return Err(if is_for_root { error.hint("run it with sudo") } else { error });
            }
        }
    }
    Ok((Config::default(), None))
}

fn named_configuration() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Where a configuration is looked for, the first place first.
pub fn configuration_places() -> Vec<PathBuf> {
    if let Some(path) = named_configuration() {
        return vec![path];
    }
    let beside = executable().and_then(|exe| Some(exe.parent()?.join(BESIDE)));
    std::iter::once(PathBuf::from(ETC)).chain(beside).collect()
}

/// This executable; where there is no `/proc`, by the full path that kubelet calls it with.
fn executable() -> Option<PathBuf> {
    let called = || std::env::args_os().next().map(PathBuf::from).filter(|path| path.is_absolute());
    std::env::current_exe().ok().or_else(called)
}

fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        // The place, not the message: a message may quote what is secret.
        let place = panic.location().map(ToString::to_string);
        tracing::error!(?place, event = "call_failed", "end: panicked");
    }));
}
