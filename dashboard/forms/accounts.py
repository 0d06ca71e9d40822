"""Forms of the account pages. Widgets carry the product's classes and say which words belong to them."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator


class Labelled(forms.Form):
    """Each field knows its help and its error by id, for those who hear the page."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.widget.attrs["class"] = "select" if isinstance(field.widget, forms.Select) else "input"
            described = [f"id_{name}-help"] if field.help_text else []
            if self.is_bound and name in self.errors:
                field.widget.attrs["aria-invalid"] = "true"
                described.append(f"id_{name}-error")
            if described:
                field.widget.attrs["aria-describedby"] = " ".join(described)


class SignInForm(Labelled, AuthenticationForm):
    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": "This name and password do not go together, or the account is deactivated.",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = "Name"


def _name_field() -> forms.CharField:
    return forms.CharField(
        label="Name",
        max_length=150,
        validators=[UnicodeUsernameValidator()],
        help_text="Letters, digits and @ . + - _",
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none"}),
    )


def _password_field(label: str, *, autocomplete: str = "new-password", help_text: str = "") -> forms.CharField:
    widget = forms.PasswordInput(attrs={"autocomplete": autocomplete})
    return forms.CharField(label=label, strip=False, help_text=help_text, widget=widget)


class PasswordForm(Labelled):
    """A new password, twice."""

    password = _password_field("Password", help_text="At least 10 characters, none of the passwords everybody uses.")
    again = _password_field("The same again")

    def for_user(self) -> User:
        """Whom the password must not resemble."""
        return User(username=self.cleaned_data.get("username", ""))

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        password, again = cleaned.get("password"), cleaned.get("again")
        if password and again and password != again:
            self.add_error("again", "The two passwords differ.")
        if password:
            try:
                validate_password(password, self.for_user())
            except forms.ValidationError as error:
                self.add_error("password", error)
        return cleaned


class InvitationForm(PasswordForm):
    username = _name_field()
    field_order = ["username", "password", "again"]


class SetupForm(InvitationForm):
    code = forms.CharField(
        label="Set-up code",
        max_length=40,
        help_text="Printed beside the address where the server was started.",
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "autocapitalize": "characters", "spellcheck": "false"}
        ),
    )
    field_order = ["code", "username", "password", "again"]


class OwnPasswordForm(PasswordForm):
    old = _password_field("Present password", autocomplete="current-password")
    field_order = ["old", "password", "again"]

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        self._user = user
        super().__init__(*args, **kwargs)
        self.fields["password"].label = "New password"

    def for_user(self) -> User:
        return self._user

    def clean_old(self) -> str:
        old: str = self.cleaned_data["old"]
        if not self._user.check_password(old):
            raise forms.ValidationError("This is not your present password.")
        return old


class ProfileForm(Labelled):
    display_name = forms.CharField(label="Display name", max_length=150, required=False, help_text="Shown to others.")
    theme = forms.ChoiceField(
        label="Theme", choices=[("system", "Like the system"), ("light", "Light"), ("dark", "Dark")]
    )


class TokenForm(Labelled):
    name = forms.CharField(
        label="Name", max_length=80, help_text="What it is for, for example the machine that uses it."
    )
    scope = forms.ChoiceField(label="May", choices=[("read", "Read"), ("write", "Read and write")], initial="write")


class InviteForm(Labelled):
    display_name = forms.CharField(
        label="For whom",
        max_length=150,
        required=False,
        help_text="Only a note for this page; they choose a name themselves.",
    )
