//! What the pages say, in one place.

pub(crate) const NAME: &str = "leasehold";
pub(crate) const SKIP: &str = "Skip to the content";
pub(crate) const NAVIGATION: &str = "Pages";

pub(crate) const OVERVIEW: &str = "Overview";
pub(crate) const QUEUES: &str = "Queues";
pub(crate) const JOBS: &str = "Jobs";
pub(crate) const JOB: &str = "Job";

pub(crate) const WORKERS: &str = "Workers";
pub(crate) const WORKER: &str = "Worker";
pub(crate) const HOST: &str = "Host";
pub(crate) const PROCESS: &str = "Process";
pub(crate) const THREADS: &str = "Threads";
pub(crate) const STARTED: &str = "Started";
pub(crate) const SEEN: &str = "Last seen";
pub(crate) const GONE: &str = "gone";
pub(crate) const LEASES: &str = "Leases";
pub(crate) const LEASES_OF: &str = "Leases of";
pub(crate) const LEASE_LEFT: &str = "Lease left";
pub(crate) const EXPIRED: &str = "expired";
pub(crate) const PREFETCHED: &str = "claimed ahead";
pub(crate) const NO_WORKERS: &str = "No worker has been seen within the last hour.";

pub(crate) const WORKFLOW: &str = "Workflow";
pub(crate) const WAITS_FOR: &str = "Waits for";
pub(crate) const WAITS: &str = "what it waits for, and what waits for it";
pub(crate) const MORE_JOBS: &str =
    "jobs are shown, those that are nearest to this one; there are more, or more that wait for each other.";
pub(crate) const PURGED: &str = "purged";
pub(crate) const NO_BATCHES: &str = "There are no batches.";
pub(crate) const NAME_OF_BATCH: &str = "Name";
pub(crate) const OPEN_JOBS: &str = "Open jobs";
pub(crate) const FAILURES: &str = "Failed of late";
pub(crate) const TIMES: &str = "Times";
pub(crate) const OF_ATTEMPTS: &str = "Counted among the newest failed attempts:";
pub(crate) const NEWEST: &str = "Newest";
pub(crate) const WHEN: &str = "When";
pub(crate) const NO_FAILURES: &str = "Nothing has failed.";

pub(crate) const LAST_HOUR: &str = "in the last hour";
pub(crate) const THROUGHPUT: &str = "Jobs that ended, per minute";
pub(crate) const LATENCY: &str = "From run time to completion";
pub(crate) const MEDIAN: &str = "median";
pub(crate) const P95: &str = "95 of 100";
pub(crate) const DEPTH: &str = "Ready jobs by queue";
pub(crate) const OLDEST: &str = "Oldest ready";

pub(crate) const SCHEDULES: &str = "Schedules";
pub(crate) const BATCHES: &str = "Batches";
pub(crate) const BATCH: &str = "Batch";

pub(crate) const REQUEUE: &str = "Retry";
pub(crate) const RUN_NOW: &str = "Run now";
pub(crate) const CANCEL: &str = "Cancel";
pub(crate) const DISCARD: &str = "Discard";
pub(crate) const PAUSE: &str = "Pause";
pub(crate) const RESUME: &str = "Resume";
pub(crate) const PAUSE_NAME: &str = "Name of the queue or kind";
pub(crate) const HOW: &str = "How";
pub(crate) const SOFT: &str = "ask its handler to stop";
pub(crate) const HARD: &str = "at once: its commit is refused";
pub(crate) const NO_REASON: &str = "no reason given";
pub(crate) const ENDED_ALREADY: &str = "It has ended already.";
pub(crate) const TRY_AGAIN: &str = "The job changes just now. Look at it again.";

pub(crate) const SCHEDULE: &str = "Schedule";
pub(crate) const CRON: &str = "Cron text";
pub(crate) const UPCOMING: &str = "Next";
pub(crate) const LAST: &str = "Last";
pub(crate) const MISSED: &str = "Missed times";
pub(crate) const ACTION: &str = "Action";
pub(crate) const ACTIONS: &str = "Actions";
pub(crate) const NO_ACTIONS: &str = "Nothing has been done by hand, or not by that name.";
pub(crate) const NO_SCHEDULES: &str = "There are no schedules.";
pub(crate) const OPEN_BATCH: &str = "Open";
pub(crate) const SHARE: &str = "How its jobs are";
pub(crate) const CANCEL_BATCH: &str = "Cancel the batch";
pub(crate) const NOT_FINISHED: &str = "not finished";
pub(crate) const FINISHED: &str = "Finished";
pub(crate) const JOBS_OF_BATCH: &str = "Its jobs";

pub(crate) const READY: &str = "ready";
pub(crate) const SCHEDULED: &str = "scheduled";
pub(crate) const BLOCKED: &str = "blocked";
pub(crate) const RUNNING: &str = "running";
pub(crate) const COMPLETED: &str = "completed";
pub(crate) const DISCARDED: &str = "discarded";
pub(crate) const CANCELLED: &str = "cancelled";

pub(crate) const STATES: &str = "Jobs by state";
pub(crate) const PAUSES: &str = "Pauses";
pub(crate) const NO_PAUSES: &str = "Nothing is paused.";
pub(crate) const EVERYTHING: &str = "everything";
pub(crate) const QUEUE: &str = "Queue";
pub(crate) const KIND: &str = "Kind";
pub(crate) const STATE: &str = "State";
pub(crate) const SINCE: &str = "Since";
pub(crate) const BY: &str = "By";
pub(crate) const REASON: &str = "Reason";
pub(crate) const WHAT: &str = "What";
pub(crate) const NO_QUEUES: &str = "There are no jobs yet.";
pub(crate) const PAUSED: &str = "paused";

pub(crate) const SEARCH: &str = "Search";
pub(crate) const ANY: &str = "any";
pub(crate) const ID: &str = "Id";
pub(crate) const AGE: &str = "Older than";
pub(crate) const AGES: [(&str, &str, u64); 4] = [
    ("1m", "a minute", 60),
    ("1h", "an hour", 3600),
    ("1d", "a day", 86_400),
    ("7d", "a week", 604_800),
];
pub(crate) const ERROR_TEXT: &str = "Error text";
pub(crate) const ATTEMPT: &str = "Attempt";
pub(crate) const ENQUEUED: &str = "Enqueued";
pub(crate) const RUNS: &str = "Runs";
pub(crate) const ENDED: &str = "Ended";
pub(crate) const NO_JOBS: &str = "No job matches.";
pub(crate) const NO_MORE_JOBS: &str = "No more jobs match.";
pub(crate) const NO_KEY: &str = "No job has this key. A unique key is looked for among the jobs of its kind.";
pub(crate) const ONE_JOB: &str = "job";
pub(crate) const MANY: &str = "jobs";
pub(crate) const MORE_THAN: &str = "More than";
pub(crate) const AMONG: &str = "jobs match, of those looked at:";
pub(crate) const LOOK_ON: &str = "Look at older jobs";
pub(crate) const NEXT: &str = "Next page";
pub(crate) const TURN: &str = "Turn the pages";
pub(crate) const FIND_ONE: &str = "Find one job by its id or key";
pub(crate) const OPEN: &str = "Open";
pub(crate) const UNIQUE_KEY: &str = "Unique key";
pub(crate) const KEY_SHAPE: &str = "field=value";
pub(crate) const KIND_OF_KEY: &str = "Kind of the unique key";
pub(crate) const QUEUE_OF_KEY: &str = "Queue, if each has its own keys";
pub(crate) const BYTES_LEFT: &str = "more bytes";
pub(crate) const NOT_SHOWN: &str = "more are not shown.";
pub(crate) const REFRESH: &str = "Refresh every 5 s";
pub(crate) const REFRESHES: &str = "Stop refreshing";

pub(crate) const SELECT: &str = "Select";
pub(crate) const SELECTED: &str = "selected";
pub(crate) const ALL_FOUND: &str = "all found";
pub(crate) const MANY_JOBS: &str = "many jobs";
pub(crate) const CHOOSE_STATE: &str = "Choose a state to act on many jobs at once.";
pub(crate) const NONE_SELECTED: &str = "No job is selected, or none matches any more.";
pub(crate) const OF_ALL: &str = "The first of";
pub(crate) const OF_MORE_THAN: &str = "The first of more than";
pub(crate) const REPEAT: &str = "Repeat it for the rest.";
pub(crate) const OLDER_LEFT: &str = "Jobs further back were not looked at.";
pub(crate) const BACK: &str = "Back to the list";
pub(crate) const OF: &str = "of";
pub(crate) const CHANGED_MEANWHILE: &str = "The others had moved on meanwhile, or time ran out.";
pub(crate) const FIRST: &str = "First page";

pub(crate) const FACTS: &str = "Facts";
pub(crate) const TIMELINE: &str = "Timeline";
pub(crate) const STEPS: &str = "Steps";
pub(crate) const PRIORITY: &str = "Priority";
pub(crate) const VERSION: &str = "Payload version";
pub(crate) const GENERATION: &str = "Generation";
pub(crate) const IDEMPOTENCY_KEY: &str = "Idempotency key";
pub(crate) const PROGRESS: &str = "Progress";
pub(crate) const PAYLOAD: &str = "Payload";
pub(crate) const RESULT: &str = "Result";
pub(crate) const HIDDEN: &str = "Hidden. The program that serves this page may allow it.";
pub(crate) const CANCEL_REQUESTED: &str = "Asked to stop";
pub(crate) const YES: &str = "yes";
pub(crate) const WAS_ENQUEUED: &str = "enqueued";
pub(crate) const WAS_FAILED: &str = "failed";
pub(crate) const WAS_STEP: &str = "step recorded";
pub(crate) const WAS_PROGRESS: &str = "progress";
pub(crate) const WAS_CHANGED: &str = "something that this page does not know";
pub(crate) const BY_WHOM: &str = "by";
pub(crate) const NOW: &str = "now";
pub(crate) const BY_WORKER: &str = "worker";
pub(crate) const RENEWED: &str = "Its lease was given or renewed";
pub(crate) const AGO: &str = "ago";
pub(crate) const HOLDS: &str = "it holds for";
pub(crate) const LEASE_EXPIRED: &str = "Its lease has expired; the sweep is to take it back.";
pub(crate) const WILL_RUN: &str = "to run at";
pub(crate) const IS_BLOCKED: &str = "kept by a limit, or by jobs that have to end first";
pub(crate) const IS_DUE: &str = "due: a worker takes it when it can";
pub(crate) const NOT_RECORDED: &str = "When it was claimed, snoozed or released is not recorded.";

pub(crate) const LOG_IN: &str = "Log in";
pub(crate) const LOG_OUT: &str = "Log out";
pub(crate) const TOKEN: &str = "Token";
pub(crate) const WHO: &str = "Your name, for the record of what you do";
pub(crate) const WRONG_TOKEN: &str = "That is not the token.";
pub(crate) const WHO_BEARER: &str = "bearer token";
pub(crate) const WHO_UNNAMED: &str = "web page";
pub(crate) const READ_ONLY: &str = "read only";

pub(crate) const MESSAGE: &str = "Not here";
pub(crate) const NOT_FOUND: &str = "There is nothing here. What was here may have been purged.";
pub(crate) const WRONG_METHOD: &str = "This address does not take such a request.";
pub(crate) const UNREADABLE: &str =
    "The request cannot be read: a value in it is too long, is not what is asked for, is given twice, or is no text.";
#[cfg(feature = "axum")]
pub(crate) const TOO_SLOW: &str = "The request comes too slowly. Send it again.";
#[cfg(feature = "axum")]
pub(crate) const LATE: &str =
    "The database does not answer in time. What was asked of it may still be done: look again later.";
pub(crate) const TOO_LARGE: &str = "The request is too large. Select fewer jobs, or give a shorter reason.";
pub(crate) const NOT_A_FORM: &str = "Only forms are taken: application/x-www-form-urlencoded.";
pub(crate) const NO_DATABASE: &str = "The database cannot be read now. The log of this server says why.";
pub(crate) const PANICKED: &str = "This page is broken. The log of this server says why.";
pub(crate) const DENIED_HOST: &str =
    "This server is not asked by that name. Use localhost, or let the program allow the name (SiteBuilder::host).";
pub(crate) const DENIED_UNKNOWN: &str = "Log in first.";
pub(crate) const DENIED_FOREIGN: &str =
    "The request comes from another site's page. Open this site's own page, and do it there.";
pub(crate) const DENIED_READ_ONLY: &str =
    "This page is read only: nobody is asked who they are. Give it a token or a function that authenticates.";
pub(crate) const DENIED_MARK: &str =
    "The form is an old one, or not of this session. Go back, load the page again and repeat.";
