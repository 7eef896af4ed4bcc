"""The conventions of scikit-learn: parameters, fitted attributes, and the state that is saved."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import Any, ClassVar, Self, get_origin, get_type_hints

import numpy as np

from veilgraph.errors import FitError
from veilgraph.models.saved_state import FittedState

DOMAIN = ("classes_", "n_features_in_")
"""Fitted attributes that every method has; a model folder keeps them beside the fitted values."""


class Estimator:
    """An object that is fitted, by the conventions of scikit-learn.

    Constructor parameters are attributes of the same name. Fitted attributes end with an underscore, for example
    `probabilities_`, and are set by a fit. `sklearn.base.clone` returns a copy that is not fitted, and
    `sklearn.utils.validation.check_is_fitted` tells the two apart.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor parameters by name. No parameter is an estimator, so `deep` changes nothing."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Set constructor parameters; a name that the method does not have is refused with the nearest ones."""
        known = self.get_params()
        for name in parameters.keys() - known.keys():
            near = get_close_matches(name, known, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known) or 'none'}"
            raise FitError(f"{type(self).__name__} has no parameter '{name}': {hint}")
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def saved_parameters(self) -> dict[str, Any]:
        """Return the constructor parameters, JSON-ready, as `save` writes them."""
        return self.get_params()

    def __sklearn_is_fitted__(self) -> bool:
        return bool(fitted_attributes(self))

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a classifier; only scikit-learn asks for them."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False),
        )

    def fitted_state(self) -> FittedState:
        """Return what `save` writes besides the parameters; `restore` takes it back.

        The default saves all fitted attributes under their names without the underscore. A method whose fitted
        attributes are neither arrays nor JSON-ready overrides both functions.
        """
        fitted = {name.removesuffix("_"): value for name, value in fitted_attributes(self).items()}
        arrays = {name: value for name, value in fitted.items() if isinstance(value, np.ndarray)}
        return FittedState(arrays=arrays, values={name: value for name, value in fitted.items() if name not in arrays})

    def restore(self, state: FittedState) -> None:
        """Set the fitted attributes to a state that `fitted_state` returned; refuse one of another form."""
        declared = {
            name.removesuffix("_"): kind for name, kind in declared_types(type(self)).items() if name.endswith("_")
        }
        if declared:
            state.check(declared)
        for name, value in (state.values | state.arrays).items():
            setattr(self, f"{name}_", value)


def fitted_attributes(method: Estimator) -> dict[str, Any]:
    """Return the attributes that a fit has set, without those of the domain, by name."""
    fitted = {name: value for name, value in vars(method).items() if name.endswith("_") and value is not None}
    return {name: value for name, value in fitted.items() if name not in DOMAIN}


def declared_types(cls: type[Estimator]) -> dict[str, Any]:
    """Return the declared types of parameters and fitted attributes, by name."""
    return {
        name: kind
        for name, kind in get_type_hints(cls).items()
        if get_origin(kind) is not ClassVar and name not in DOMAIN
    }
