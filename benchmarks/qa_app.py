"""Our own application for any ASGI server: `granian --interface asgi benchmarks.qa_app:app`. Settings are variables."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from model_code.serving import app as application
from model_code.serving import log, settings, workload
from model_code.serving.service import Service

log.start()
given = settings.from_environment()
app = application.create(Service(given, workload.find(given.workload)))
