//! A real browser without a window, spoken to by its own protocol over two pipes: it shows a page on a screen of
//! any width, light or dark, with scripts or without, and is asked what it sees.

use super::skip;
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// A browser that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(120);

const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

#[derive(Debug)]
pub struct Browser {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<Value>,
    number: Cell<u64>,
    session: String,
    _profile: TempDir,
}

/// The screen on which a page is shown.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    pub width: u32,
    pub is_dark: bool,
    pub has_scripts: bool,
}

impl Browser {
    /// Nothing where there is none, which counts as skipped.
    pub fn start(test: &str) -> Option<Self> {
        let told = std::env::var("CHROMIUM").ok();
        let is_there = |program: &&str| {
            let found = Command::new(program).arg("--version").stderr(Stdio::null()).output();
            found.is_ok_and(|output| output.status.success())
        };
        let Some(program) = told.as_deref().into_iter().chain(PROGRAMS).find(is_there) else {
            skip(test, "needs chromium (Debian's package chromium)");
            return None;
        };
        let profile = TempDir::with_prefix("incloud-disk-browser-").unwrap();
        // It reads at 3 and writes at 4.
        let script =
            "program=$1; shift; exec \"$program\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", program, "--headless=new", "--no-sandbox"]);
        command.args([
            "--disable-gpu",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            "--no-first-run",
        ]);
        command.args(["--force-color-profile=srgb", "--font-render-hinting=none"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (requests, said) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (to, answers) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(said).split(0).map_while(Result::ok) {
                if to.send(serde_json::from_slice(&message).unwrap_or_default()).is_err() {
                    break;
                }
            }
        });
        let (number, session) = (Cell::new(0), String::new());
        let mut browser = Self { child, requests, answers, number, session, _profile: profile };
        let target = browser.ask("Target.createTarget", &json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", &target);
        browser.session = session["sessionId"].as_str().unwrap().into();
        browser.ask("Page.enable", &json!({}));
        Some(browser)
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.number.get() + 1;
        self.number.set(id);
        let mut request = json!({"id": id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            request["sessionId"] = self.session.as_str().into();
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        let mut answer = self.next(|message| message["id"] == id);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].take()
    }

    fn next(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.answers.recv_timeout(PATIENCE).expect("the browser answers");
            if is_it(&message) {
                return message;
            }
        }
    }

    /// Shows a file.
    pub fn show(&mut self, page: &Path, screen: Screen) {
        let Screen { width, is_dark, has_scripts } = screen;
        let size = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if is_dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", &media);
        self.ask("Emulation.setScriptExecutionDisabled", &json!({"value": !has_scripts}));
        self.ask("Page.navigate", &json!({"url": format!("file://{}", page.display())}));
        self.next(|message| message["method"] == "Page.loadEventFired");
    }

    /// What an expression is there, a promise's end waited for.
    pub fn value(&mut self, expression: &str) -> Value {
        let question =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.ask("Runtime.evaluate", &question);
        assert!(answer["exceptionDetails"].is_null(), "{answer:#}");
        answer["result"]["value"].take()
    }

    /// The whole page, as far as a person would look, in base 64 of PNG.
    pub fn picture(&mut self) -> String {
        const LONGEST: f64 = 6000.0;
        let size = self.ask("Page.getLayoutMetrics", &json!({}))["cssContentSize"].take();
        let height = size["height"].as_f64().unwrap().min(LONGEST);
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1});
        let whole = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        self.ask("Page.captureScreenshot", &whole)["data"].as_str().unwrap().to_owned()
    }

    /// How much of two pictures differs, in parts of a thousand: cells of 8 by 8 whose mean colour is another
    /// one. The browser itself reads them.
    pub fn difference(&mut self, one: &str, other: &str) -> Value {
        self.ask("Emulation.setScriptExecutionDisabled", &json!({"value": false}));
        self.ask("Page.navigate", &json!({"url": "about:blank"}));
        self.next(|message| message["method"] == "Page.loadEventFired");
        self.value(&format!(
            "(async () => {{
                const cells = async data => {{
                    const image = new Image();
                    image.src = 'data:image/png;base64,' + data;
                    await image.decode();
                    const canvas = document.createElement('canvas');
                    [canvas.width, canvas.height] = [Math.ceil(image.width / 8), Math.ceil(image.height / 8)];
                    const drawn = canvas.getContext('2d');
                    drawn.imageSmoothingQuality = 'high';
                    drawn.drawImage(image, 0, 0, canvas.width, canvas.height);
                    return [image.width, image.height, drawn.getImageData(0, 0, canvas.width, canvas.height).data];
                }};
                const [one, other] = [await cells('{one}'), await cells('{other}')];
                let different = 0;
                for (let at = 0; at < one[2].length; at += 4) {{
                    const far = [0, 1, 2].some(part => Math.abs(one[2][at + part] - other[2][at + part]) > 40);
                    different += far ? 1 : 0;
                }}
                return {{ width: [one[0], other[0]], height: [one[1], other[1]],
                         differs: Math.round(4000 * different / one[2].length) }};
            }})()"
        ))
    }

    /// What is wrong with the page as it is shown: what is too wide for it, texts of a picture that lie over
    /// each other, and those that are cut off.
    pub fn faults(&mut self) -> Value {
        self.value(
            "(() => {
                const found = [];
                const width = document.scrollingElement.scrollWidth;
                if (width > innerWidth) found.push(`the page is ${width} wide on ${innerWidth}`);
                for (const svg of document.querySelectorAll('figure svg')) {
                    const whole = svg.getBoundingClientRect();
                    if (whole.width === 0) continue;
                    const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
                    texts.forEach(([one, a], place) => {
                        if (a.left < whole.left - 1 || a.right > whole.right + 1 || a.bottom > whole.bottom + 1)
                            found.push(`cut off: ${one}`);
                        for (const [other, b] of texts.slice(place + 1)) {
                            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                            const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                            if (across > 1 && down > 3) found.push(`over each other: ${one} and ${other}`);
                        }
                    });
                }
                return found;
            })()",
        )
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let close = json!({"id": 0, "method": "Browser.close"});
        let _ = self.requests.write_all(format!("{close}\0").as_bytes());
        // Its own end takes its children with it.
        for _ in 0..100 {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bytes that a text in base 64 stands for.
pub fn from_base64(text: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(text).unwrap()
}

/// The text in base 64 of bytes.
pub fn to_base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}
