"""Settings of a deployment, and the catalogues that they are checked against."""

from settings.errors import Problem, SettingsError
from settings.loading import REPO_ROOT, load_settings
from settings.models import Settings

__all__ = ["REPO_ROOT", "Problem", "Settings", "SettingsError", "load_settings"]
