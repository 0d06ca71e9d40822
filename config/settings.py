from __future__ import annotations

from typing import Any

from csp.constants import NONE, SELF
from dj_database_url import parse as parse_database_url

from config.env import BASE_DIR, SettingError, read_environment
from config.hosts import default_allowed_hosts
from config.logs import TEXT_FORMAT
from config.secret import kept_secret
from config.start.places import Places
from config.start.redis import celery_broker_url, local_redis_url

ENV = read_environment()

DATA_DIR = ENV.data_dir
CACHE_DIR = ENV.cache_dir
WEIGHTS_DIR = ENV.weights_dir
ENGINE_COMMAND = ENV.engine_command
IMPORT_ROOTS = ENV.import_roots
SERVE_SOCKET = Places(DATA_DIR).serve_socket_path
UPLOAD_MAX_GIB = ENV.upload_max_gib
UPLOAD_QUOTA_GIB = ENV.upload_quota_gib
UPLOAD_KEEP_DAYS = ENV.upload_keep_days
DISK_RESERVE_GIB = ENV.disk_reserve_gib
LEASE_S = ENV.lease_s
STARTS_JOBS = ENV.starts_jobs
try:
    SECRET_KEY = ENV.secret_key or kept_secret(Places(DATA_DIR).secret_key_path)
    REDIS_URL = ENV.redis_url or local_redis_url(Places(DATA_DIR))
except OSError as problem:
    raise SettingError(
        f"DATA_DIR {DATA_DIR} cannot be written: {problem.strerror}. Make it writable or set DATA_DIR to another."
    ) from None
DEBUG = ENV.debug
ALLOWED_HOSTS = ENV.allowed_hosts or default_allowed_hosts(ENV.host)
CSRF_TRUSTED_ORIGINS = ENV.trusted_origins
URL_PREFIX = ENV.url_prefix
FORCE_SCRIPT_NAME = URL_PREFIX or None

INSTALLED_APPS = [
    "config",
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "django_htmx",
    "ninja",
    "jobs",
    "dashboard",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "dashboard.sign_in.SignInRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "dashboard.database_manners.DatabaseManners",
    "dashboard.errors.ErrorPages",
]
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

_SQLITE_OPTIONS = {
    "timeout": 20,
    # A transaction that reads and then writes fails under the default mode whatever the timeout.
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;",
}


# A server that is cut off says nothing, for minutes if it is let: requests are to be answered, leases given up.
_POSTGRESQL_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    # The server's side of it: a host that is cut off, or a process that is frozen, in the middle of a transaction would
    # keep its locks, on the very rows that another host needs to go on with the job.
    "options": " ".join(
        f"-c {name}={value}"
        for name, value in {
            "idle_in_transaction_session_timeout": round(1000 * min(20.0, LEASE_S / 2)),
            "tcp_keepalives_idle": 5,
            "tcp_keepalives_interval": 5,
            "tcp_keepalives_count": 3,
        }.items()
    ),
}


def _database(url: str) -> dict[str, Any]:
    if not url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATA_DIR / "fovea.sqlite3",
            "OPTIONS": _SQLITE_OPTIONS,
        }
    try:
        database: dict[str, Any] = dict(parse_database_url(url, conn_health_checks=True))
    except ValueError as problem:
        raise SettingError(f'Environment variable "DATABASE_URL" invalid: {problem}') from None
    if database["ENGINE"] == "django.db.backends.sqlite3":
        database["OPTIONS"] = {**_SQLITE_OPTIONS, **database.get("OPTIONS", {})}
    if database["ENGINE"] == "django.db.backends.postgresql":
        database["OPTIONS"] = {**_POSTGRESQL_OPTIONS, **database.get("OPTIONS", {})}
    return database


DATABASES = {"default": _database(ENV.database_url)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
CSRF_FAILURE_VIEW = "dashboard.errors.csrf_failure"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

# Whole: Django would put the prefix before it of whatever asks first, and keep that.
STATIC_URL = f"{URL_PREFIX}/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "config.vendored.VendoredFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "config.vendored.HashedStaticStorage"},
}

SERVESTATIC_KEEP_ONLY_HASHED_FILES = True
SERVESTATIC_ALLOW_ALL_ORIGINS = False

CELERY_BROKER_URL = celery_broker_url(REDIS_URL)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
# A bell that nobody hears is not rung again: the agent looks every 2 s.
CELERY_TASK_PUBLISH_RETRY = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = TIME_ZONE
CANARY_EVERY_S = 25.0
CANARY_PATIENCE_S = 80.0
CELERY_BEAT_SCHEDULE = {
    "dispatch": {"task": "jobs.tasks.dispatch", "schedule": 10.0, "options": {"expires": 10}},
    "housekeep": {"task": "jobs.tasks.housekeep", "schedule": 60.0, "options": {"expires": 60}},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "context": {"()": "config.logs.WithContext"},
        "invitations": {"()": "config.logs.WithoutInvitations"},
    },
    "formatters": {
        "text": {"format": TEXT_FORMAT, "style": "{"},
        "json": {"()": "config.logs.JsonLines"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": ENV.log_format,
            "filters": ["context", "invitations"],
        }
    },
    "root": {"handlers": ["stderr"], "level": ENV.log_level},
    # Django's own handlers mail to administrators or speak only under DEBUG.
    "loggers": {
        "django": {"handlers": [], "level": ENV.log_level, "propagate": True},
        # Its own handler would write beside ours.
        "uvicorn": {"handlers": [], "level": ENV.log_level, "propagate": True},
        # What --no-access-log had set is undone by the line above. Addresses are for no log: some are invitations.
        "uvicorn.access": {"propagate": False},
        # A bell rings every few seconds; that it did is no news.
        "celery.app.trace": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
    },
}

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = ENV.https_only
SECURE_HSTS_SECONDS = 31_536_000 if ENV.https_only else 0
SECURE_REDIRECT_EXEMPT = [rf"^{f'{URL_PREFIX}/'.lstrip('/')}(healthz|readyz)$"]
if URL_PREFIX:
    # Another service of the same site may be made with Django too: its cookies reach us, and ours are not to reach it.
    SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = f"{URL_PREFIX}/"
    SESSION_COOKIE_NAME = f"sessionid{URL_PREFIX.replace('/', '_')}"
    CSRF_COOKIE_NAME = f"csrftoken{URL_PREFIX.replace('/', '_')}"
X_FRAME_OPTIONS = "DENY"
# Other names of the domain, and lists that browsers ship, are for those who run the server to decide.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        # plotly writes styles into elements; strict styles break its layout and its hover.
        "style-src": [SELF, "'unsafe-inline'"],
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
