//! The agent: reads what is wanted from a virtio-serial port, does it, answers.

use super::maps;
use crate::orders::{Answer, Ask, CHANNEL, Disk, Said};
use crate::support::pods::{Container, Naming, Order, Pod};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Serves until the machine is switched off.
pub(crate) fn serve() -> ExitCode {
    let Some(port) = wait_for_port() else {
        eprintln!("agent: no port called {CHANNEL}");
        return ExitCode::FAILURE;
    };
    let mut port = OpenOptions::new().read(true).write(true).open(port).expect("the port");
    say(&mut port, &super::home::settle_in().map(|()| ready()));
    let mut lines = BufReader::new(port.try_clone().expect("the port"));
    let mut agent = Agent::default();
    loop {
        let mut line = String::new();
        match lines.read_line(&mut line) {
            Ok(length) if length > 0 => say(&mut port, &agent.answer(&line)),
            // No process has the other end.
            _ => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn say(port: &mut File, answer: &Answer) {
    let mut line = serde_json::to_string(answer).expect("an answer");
    line.push('\n');
    port.write_all(line.as_bytes()).expect("the port takes it");
}

fn ready() -> Said {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let uptime = read("/proc/uptime").split(' ').next().and_then(|text| text.parse().ok());
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
    Said::Ready { uptime: uptime.unwrap_or_default(), kernel }
}

/// The node of the port, as soon as the kernel has it.
fn wait_for_port() -> Option<PathBuf> {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        for entry in fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().flatten() {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            let node = Path::new("/dev").join(entry.file_name());
            if name.trim() == CHANNEL && node.exists() {
                return Some(node);
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    None
}

#[derive(Debug, Default)]
struct Agent {
    containers: BTreeMap<String, Container>,
    pods: BTreeMap<String, Pod>,
}

impl Agent {
    fn answer(&mut self, line: &str) -> Answer {
        let ask = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        // The support code fails by panicking.
        catch_unwind(AssertUnwindSafe(|| self.obey(ask))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            Err(text.unwrap_or_else(|| "the agent panicked".to_owned()))
        })
    }

    fn obey(&mut self, ask: Ask) -> Answer {
        let text = |error: std::io::Error| error.to_string();
        match ask {
            Ask::Run { argv, limit } => run(&argv, limit),
            Ask::Put { path, text: content } => {
                fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).map_err(text)?;
                fs::write(&path, content).map_err(text)?;
                Ok(Said::Done)
            }
            Ask::Read { path } => {
                let text =
                    fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                Ok(Said::Text(String::from_utf8_lossy(&text).into_owned()))
            }
            Ask::Disks => Ok(Said::Disks(disks())),
            Ask::Cover { volume } => maps::cover(&volume).map(|()| Said::Done),
            Ask::Switch { volume } => maps::switch(&volume).map(|took| Said::Switched { took }),
            Ask::EndMaps => maps::end().map(|()| Said::Done),
            Ask::Start { name, pod, sees } => Ok(self.start(name, pod, sees)),
            Ask::Tell { name, order } => self.tell(&name, &order),
            Ask::End { name } => {
                let container = self.containers.remove(&name).ok_or("no such container")?;
                container.die();
                Ok(Said::Done)
            }
            Ask::EndAll => {
                self.containers.clear();
                self.pods.clear();
                Ok(Said::Done)
            }
        }
    }

    fn start(&mut self, name: String, uid: String, sees: Vec<(PathBuf, PathBuf)>) -> Said {
        let pod =
            self.pods.entry(uid).or_insert_with_key(|uid| Pod::with_uid(Naming::Systemd, uid));
        let mut plan = pod.container();
        for (folder, place) in sees {
            plan = plan.seeing(&folder, place.to_str().expect("a place"));
        }
        let container = plan.start();
        let pid = container.pid();
        self.containers.insert(name, container);
        Said::Started { pid }
    }

    fn tell(&mut self, name: &str, order: &Order) -> Answer {
        let container = self.containers.get_mut(name).ok_or("no such container")?;
        Ok(Said::Told(container.must(order)))
    }
}

fn disks() -> Vec<Disk> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    entries.map(|entry| disk(&entry.path())).collect()
}

fn disk(folder: &Path) -> Disk {
    let read = |file: &str| {
        let bytes = fs::read(folder.join(file)).unwrap_or_default();
        // SCSI's page begins with four bytes that are no text.
        let text = bytes.into_iter().filter(u8::is_ascii_graphic).map(char::from);
        text.collect::<String>()
    };
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // virtio-blk, NVMe, SCSI.
    let serials = ["serial", "device/serial", "device/vpd_pg80"].map(read);
    let below = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
    let below: Vec<_> = below.filter(|entry| entry.path().join("dev").exists()).collect();
    let below = match below.as_slice() {
        [one] => Some(one.file_name().to_string_lossy().into_owned()),
        _ => None,
    };
    Disk { name, number: read("dev"), serial: serials.join(" ").trim().to_owned(), below }
}

fn run(argv: &[String], limit: Duration) -> Answer {
    let (program, arguments) = argv.split_first().ok_or("nothing to run")?;
    let (mut output, writer) = std::io::pipe().map_err(|error| error.to_string())?;
    let also = writer.try_clone().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(also)
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = output.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let end = Instant::now() + limit;
    let mut was_killed = false;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            let text = reader.join().unwrap_or_default();
            return Ok(Said::Ended { code: status.code().filter(|_| !was_killed), text });
        }
        if !was_killed && Instant::now() > end {
            let _ = child.kill();
            was_killed = true;
        }
        if Instant::now() > end + Duration::from_secs(5) {
            return Err(format!("{argv:?} does not even die when it is killed"));
        }
        thread::sleep(Duration::from_millis(3));
    }
}
