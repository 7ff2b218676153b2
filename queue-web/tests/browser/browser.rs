//! Chromium with its driver.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fantoccini::elements::Element;
use fantoccini::error::CmdError;
use fantoccini::wd::Capabilities;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use leasehold_tests::jobs::SOON;
use serde_json::{Value, json};

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
    url: String,
}

/// Opens a browser on a site and does something there; the browser goes in any case.
pub(crate) fn with_browser(
    (browser, driver): &(PathBuf, PathBuf),
    window: Window,
    url: &str,
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
            .capabilities(capabilities(browser, profile.path(), window))
            .connect(&format!("http://127.0.0.1:{}", driver.port))
            .await
            .unwrap();
        let url = url.to_owned();
        let page = Page { client, url };
        let worked = work(&page).await;
        page.client.close().await.unwrap();
        worked.unwrap();
    });
}

fn capabilities(browser: &Path, profile: &Path, window: Window) -> Capabilities {
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
    arguments.push(format!("--window-size={},{}", window.width, window.height));
    if window.dark {
        arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
    }
    let options = json!({
        "args": arguments,
        "binary": browser,
        "mobileEmulation": { "deviceMetrics": { "width": window.width, "height": window.height, "pixelRatio": 1.0 } },
    });
    Capabilities::from_iter([("goog:chromeOptions".to_owned(), options)])
}

impl Page {
    pub(crate) async fn open(&self, path: &str) -> Result<(), CmdError> {
        self.client.goto(&format!("{}{path}", self.url)).await?;
        self.is_sound(path).await
    }

    /// Waits until an element is there; says where it was missed.
    async fn find(&self, locator: Locator<'_>) -> Result<Element, CmdError> {
        match self.client.wait().at_most(SOON).for_element(locator).await {
            Err(CmdError::WaitTimeout) => panic!("no {locator:?} in {}", self.client.source().await?),
            found => found,
        }
    }

    pub(crate) async fn click(&self, selector: &str) -> Result<(), CmdError> {
        self.find(Locator::Css(selector)).await?.click().await
    }

    pub(crate) async fn write(&self, selector: &str, text: &str) -> Result<(), CmdError> {
        self.find(Locator::Css(selector)).await?.send_keys(text).await
    }

    pub(crate) async fn text(&self, selector: &str) -> Result<String, CmdError> {
        self.find(Locator::Css(selector)).await?.text().await
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

    /// The sheet was taken, nothing is inline, nothing runs, and nothing is wider than the window.
    pub(crate) async fn is_sound(&self, path: &str) -> Result<(), CmdError> {
        let look = "const shown = getComputedStyle(document.body).margin; \
            const inline = document.createElement('script'); inline.textContent = 'window.ran = true'; \
            const before = document.querySelectorAll('script, img, [style], [onerror]').length; \
            document.body.append(inline); \
            return [document.styleSheets.length, shown, before, window.ran === true, \
                document.documentElement.scrollWidth <= document.documentElement.clientWidth];";
        let seen = self.client.execute(look, Vec::new()).await?;
        assert_eq!(
            seen,
            Value::from(vec![json!(1), json!("0px"), json!(0), json!(false), json!(true)]),
            "{path}"
        );
        assert!(self.client.get_alert_text().await.is_err(), "{path}");
        Ok(())
    }
}
