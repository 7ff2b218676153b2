//! Chromium with its driver.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fantoccini::elements::Element;
use fantoccini::error::CmdError;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use leasehold_tests::jobs::SOON;
use serde_json::{Value, json};
use url::{ParseError, Url};

/// A program of this name, in the search path.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The browser and its driver, if both are installed.
pub(crate) fn installed() -> Option<(PathBuf, PathBuf)> {
    let browser = program("chromium").or_else(|| program("google-chrome"))?;
    Some((browser, program("chromedriver")?))
}

/// The driver of the browser; ended when it is dropped.
struct Driver {
    child: Child,
    port: String,
}

impl Driver {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| {
                let line = line.unwrap();
                let (_, port) = line.split_once("started successfully on port ")?;
                Some(port.trim_end_matches('.').to_owned())
            })
            .expect("it says on which port it listens");
        // Read on, so that it is not kept waiting.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It ends its browsers with it, also those of a test that failed.
        if let Ok(mut stream) = TcpStream::connect(format!("127.0.0.1:{}", self.port)) {
            let _ = stream.write_all(b"GET /shutdown HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a window looks at pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dark: bool,
}

/// What a person sees.
pub(crate) struct Page {
    pub(crate) client: Client,
    /// Of the site that is looked at.
    url: RefCell<String>,
}

/// Opens a browser and does something there; the browser goes in any case.
pub(crate) fn with_browser(
    (browser, driver): &(PathBuf, PathBuf),
    work: impl AsyncFnOnce(&Page) -> Result<(), CmdError>,
) {
    let profile = tempfile::tempdir().unwrap();
    let driver = Driver::start(driver);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities(browser, profile.path()))
            .connect(&format!("http://127.0.0.1:{}", driver.port))
            .await
            .unwrap();
        let url = RefCell::new(String::new());
        let page = Page { client, url };
        let worked = work(&page).await;
        page.client.close().await.unwrap();
        worked.unwrap();
    });
}

fn capabilities(browser: &Path, profile: &Path) -> Capabilities {
    let mut arguments: Vec<String> = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("--user-data-dir={}", profile.display()));
    let options = json!({ "args": arguments, "binary": browser });
    Capabilities::from_iter([("goog:chromeOptions".to_owned(), options)])
}

/// A word to the browser itself, which the driver passes on.
#[derive(Debug)]
struct Tell(&'static str, Value);

impl WebDriverCompatibleCommand for Tell {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        let body = json!({ "cmd": self.0, "params": self.1 });
        (Method::POST, Some(body.to_string()))
    }
}

/// Of a keyboard.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";

impl Page {
    /// Goes to another site, in whose eyes nobody has been there.
    pub(crate) async fn visit(&self, url: String) -> Result<(), CmdError> {
        self.client.goto(&format!("{url}/style.css")).await?;
        self.client.delete_all_cookies().await?;
        self.url.replace(url);
        Ok(())
    }

    pub(crate) async fn look_through(&self, window: Window) -> Result<(), CmdError> {
        let size = json!({ "width": window.width, "height": window.height, "deviceScaleFactor": 1, "mobile": true });
        self.client
            .issue_cmd(Tell("Emulation.setDeviceMetricsOverride", size))
            .await?;
        let scheme = if window.dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.client.issue_cmd(Tell("Emulation.setEmulatedMedia", media)).await?;
        Ok(())
    }

    pub(crate) async fn open(&self, path: &str) -> Result<(), CmdError> {
        let url = format!("{}{path}", self.url.borrow());
        self.client.goto(&url).await?;
        self.is_sound(path).await
    }

    /// Presses a key where the focus is, and says what has it then: its tag, its text, and whether that is seen.
    pub(crate) async fn press(&self, key: &str) -> Result<(String, String, bool), CmdError> {
        self.client.active_element().await?.send_keys(key).await?;
        let look = "const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect(); \
            return [at.tagName, at.textContent.trim(), style.outlineStyle !== 'none' && style.outlineWidth !== '0px' \
                && box.left >= 0 && box.right <= innerWidth];";
        let seen = self.client.execute(look, Vec::new()).await?;
        Ok(serde_json::from_value(seen)?)
    }

    /// What the rows of the page's table begin with.
    pub(crate) async fn rows(&self) -> Result<Vec<String>, CmdError> {
        let look = "return Array.from(document.querySelectorAll('tbody th'), row => row.textContent);";
        Ok(serde_json::from_value(self.client.execute(look, Vec::new()).await?)?)
    }

    /// Waits until an element is there; says where it was missed.
    async fn find(&self, locator: Locator<'_>) -> Result<Element, CmdError> {
        match self.client.wait().at_most(SOON).for_element(locator).await {
            Err(CmdError::WaitTimeout) => panic!("no {locator:?} in {}", self.client.source().await?),
            found => found,
        }
    }

    /// Does something with an element. One that goes with its page in between was not touched, and is looked for on the next.
    async fn with<T>(&self, selector: &str, act: impl AsyncFn(Element) -> Result<T, CmdError>) -> Result<T, CmdError> {
        let since = Instant::now();
        loop {
            match act(self.find(Locator::Css(selector)).await?).await {
                Err(error) if error.is_stale_element_reference() && since.elapsed() < SOON => {}
                answered => return answered,
            }
        }
    }

    pub(crate) async fn click(&self, selector: &str) -> Result<(), CmdError> {
        self.with(selector, async |element| element.click().await).await
    }

    pub(crate) async fn write(&self, selector: &str, text: &str) -> Result<(), CmdError> {
        self.with(selector, async |element| element.send_keys(text).await).await
    }

    pub(crate) async fn text(&self, selector: &str) -> Result<String, CmdError> {
        self.with(selector, async |element| element.text().await).await
    }

    /// Waits until the page says something.
    pub(crate) async fn says(&self, text: &str) -> Result<(), CmdError> {
        let path = format!("//main//*[contains(text(), '{text}')]");
        self.find(Locator::XPath(&path)).await?;
        Ok(())
    }

    /// Waits until the page does not say it any more.
    pub(crate) async fn says_no_more(&self, text: &str) -> Result<(), CmdError> {
        let since = Instant::now();
        while self.client.source().await?.contains(text) {
            assert!(since.elapsed() < SOON, "the page still says {text:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// The sheet was taken, nothing is inline, nothing runs, nothing is wider than the window, and who cannot see finds the
    /// way: by one heading, by landmarks with names, and by a name for each field.
    pub(crate) async fn is_sound(&self, path: &str) -> Result<(), CmdError> {
        let look = "const all = selector => Array.from(document.querySelectorAll(selector)); \
            const shown = getComputedStyle(document.body).margin; \
            const inline = document.createElement('script'); inline.textContent = 'window.ran = true'; \
            const before = all('script, img, [style], [onerror]').length; \
            document.body.append(inline); \
            const ids = all('[id]').map(one => one.id); \
            const nameless = all('input:not([type=hidden]), select, button, a, summary, progress, meter, svg[role=img], \
                [role=region], nav, table').filter(one => !(one.labels?.length || one.getAttribute('aria-label') \
                || one.querySelector('caption') || (one.tagName !== 'TABLE' && one.tagName !== 'NAV' && one.textContent.trim()))); \
            return [document.styleSheets.length, shown, before, window.ran === true, \
                document.documentElement.scrollWidth <= document.documentElement.clientWidth, \
                all('h1').length, all('main, header').length, document.documentElement.lang, ids.length - new Set(ids).size, \
                nameless.map(one => one.outerHTML)];";
        let seen = self.client.execute(look, Vec::new()).await?;
        assert_eq!(seen, json!([1, "0px", 0, false, true, 1, 2, "en", 0, []]), "{path}");
        assert!(self.client.get_alert_text().await.is_err(), "{path}");
        Ok(())
    }
}
